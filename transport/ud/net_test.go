//go:build linux

package ud

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// command runs a command that changes the lab. It never runs elsewhere.
func command(t testing.TB, text string) {
	t.Helper()
	if os.Getenv("RDMA_LAB") == "" {
		t.Skip("this changes the network: only in scripts/rdma-lab")
	}
	words := strings.Fields(text)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// impair puts a queueing discipline on both interfaces, until the test ends.
func impair(t testing.TB, discipline string) {
	t.Helper()
	needLab(t)
	for _, dev := range []string{"va", "vb"} {
		command(t, "tc qdisc add dev "+dev+" root "+discipline)
		t.Cleanup(func() { command(t, "tc qdisc del dev "+dev+" root") })
	}
}

// serveEcho runs an RPC server on tr until the test ends.
func serveEcho(t *testing.T, tr transport.Transport) *erpc.Server {
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
	return s
}

// calls makes small calls from several goroutines, and some large ones, over tr.
func calls(t *testing.T, tr transport.Transport, server string, small, large int) erpc.Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	client, err := erpc.Dial(ctx, tr, server, erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}()
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
	return client.Stats()
}

// TestRPC makes calls of the library between the two devices, on a good network and on bad
// ones, where packets are lost, repeated, late and damaged.
func TestRPC(t *testing.T) {
	for _, v := range []struct {
		name, impair string
		small, large int
	}{
		{"good", "", 4000, 4},
		{"loss", "netem loss 2%", 1000, 2},
		{"duplicates", "netem duplicate 5%", 1000, 2},
		{"reorder", "netem delay 200us reorder 20% 50%", 1000, 1},
		{"damage", "netem corrupt 2%", 1000, 2},
		{"all", "netem delay 100us 50us loss 1% duplicate 1% corrupt 1% reorder 5%", 500, 1},
	} {
		t.Run(v.name, func(t *testing.T) {
			needLab(t)
			server, client := listenAt(t, hostB, Config{}), listenAt(t, hostA, Config{})
			if v.impair != "" {
				impair(t, v.impair)
			}
			serveEcho(t, server)
			s := calls(t, client, server.LocalAddr().String(), v.small, v.large)
			t.Logf("%d packets sent, %d received, %d sent again", s.TxPackets, s.RxPackets,
				s.Protocol.Retransmits)
			if lossy := v.name == "loss" || v.name == "damage" ||
				v.name == "all"; lossy && s.Protocol.Retransmits == 0 {
				t.Error("nothing was sent again: the network loses nothing")
			}
			if v.large > 0 && client.tx.direct == 0 {
				t.Error("all packets were copied, although message buffers are registered")
			}
			if r := client.Rejects(); r != (Rejects{}) {
				t.Errorf("rejected %+v", r)
			}
		})
	}
}
