package rawtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// UDPOn opens a kernel UDP socket on one side.
func UDPOn(tb testing.TB, s *vethtest.Side, ip netip.Addr) *udp.Conn {
	tb.Helper()
	return ListenOn(tb, s, ip, udp.Listen, udp.Config{MTU: 1400})
}

// ServeEcho runs an RPC server on tr until the test ends.
func ServeEcho(t *testing.T, tr transport.Transport) {
	t.Helper()
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.HandleInline(1, func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()) }); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(tr) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, erpc.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// Calls makes small calls from several goroutines, and some large ones, over tr.
func Calls(t *testing.T, tr transport.Transport, server string, small, large int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*Patience)
	defer cancel()
	client, err := erpc.Dial(ctx, tr, server, erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var wg sync.WaitGroup
	const callers = 20
	for k := range callers {
		wg.Go(func() {
			req := make([]byte, 32)
			for i := range small / callers {
				binary.LittleEndian.PutUint64(req, uint64(k*small+i))
				if got, err := client.Call(ctx, 1, req); err != nil || !bytes.Equal(got, req) {
					t.Errorf("call %d of %d: %x, %v", i, k, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	message := make([]byte, 1<<20)
	for i := range message {
		message[i] = byte(i * i >> 7)
	}
	for i := range large {
		message[i*1000]++
		if got, err := client.Call(ctx, 1, message); err != nil || !bytes.Equal(got, message) {
			t.Fatalf("large call %d: %d bytes, %v", i, len(got), err)
		}
	}
}

// Lossy wraps tr so that it loses, repeats and reorders packets.
func Lossy(tb testing.TB, tr transport.Transport, seed uint64) transport.Transport {
	tb.Helper()
	bad := faulty.Faults{Loss: 0.01, Dup: 0.01, Reorder: 0.01}
	f, err := faulty.New(tr, faulty.Config{Seed: seed, TX: bad, RX: bad})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}
