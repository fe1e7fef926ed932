package server_test

import (
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/kv/server"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestMultiBound: an answer to a multi-get has MaxAnswer bytes at most, with a byte for each key
// that is not answered; what does not fit is said to come later.
func TestMultiBound(t *testing.T) {
	s := serve(t, server.Config{Store: mica.Config{Mode: mica.Store, Memory: 16 << 20}})
	c := connect(t, s.addrs[0])
	rpc, err := newLoop(t, faulty.Faults{}, erpc.Timing{}).Dial(t.Context(), s.addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	const head, keys = 17, "abc"
	room := message.MaxAnswer - 1 - 2*head - mica.MaxValue - len(keys)
	put := func(key string, n int) {
		if _, err := c.Put(t.Context(), []byte(key), make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	put("a", mica.MaxValue)
	put("c", 0)
	for n, want := range map[int]string{
		room:     string([]byte{byte(message.OK), byte(message.OK), byte(message.Later)}),
		room + 1: string([]byte{byte(message.OK), byte(message.Later), byte(message.OK)}),
	} {
		put("b", n)
		var req []byte
		for _, k := range keys {
			req, _ = message.AppendKey(req, mica.Hash([]byte{byte(k)}), []byte{byte(k)})
		}
		resp, err := rpc.Call(t.Context(), message.MultiGet, req)
		if err != nil || len(resp) > message.MaxAnswer {
			t.Fatal(len(resp), err)
		}
		got := ""
		for rest := resp[1:]; len(rest) > 0; {
			var status message.Status
			if _, status, rest, err = message.NextEntry(rest); err != nil {
				t.Fatal(err)
			}
			got += string([]byte{byte(status)})
		}
		if got != want {
			t.Errorf("%d bytes: %v, want %v", n, []byte(got), []byte(want))
		}
	}
}

// TestPartitionLimits: as many partitions as a layout can have, and no more.
func TestPartitionLimits(t *testing.T) {
	for n, want := range map[int]error{-1: mica.ErrConfig, 0: nil, 1: nil,
		message.MaxLayout + 1: mica.ErrConfig} {
		s, err := server.New(server.Config{Partitions: n,
			Store: mica.Config{Memory: 1 << 20, NoHugepages: true}})
		if !errors.Is(err, want) {
			t.Errorf("%d partitions: %v, want %v", n, err, want)
		}
		if s == nil {
			continue
		}
		if got := s.Partitions(); got != max(n, 1) {
			t.Errorf("%d partitions, want %d", got, n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLoopFails: when one loop ends with an error, Serve ends the others and returns it.
func TestLoopFails(t *testing.T) {
	s, err := server.New(server.Config{Partitions: 3,
		Store: mica.Config{Memory: 1 << 20, NoHugepages: true}})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	var trs []transport.Transport
	for i := range 3 {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		trs = append(trs, tr)
		if i == 1 {
			trs[i] = &failing{Transport: tr, err: broken}
		}
	}
	if err := s.Serve(trs); !errors.Is(err, broken) {
		t.Errorf("Serve: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// failing is a transport that can't receive.
type failing struct {
	transport.Transport
	err error
}

func (f *failing) RxBurst([]transport.RxPacket) (int, error) { return 0, f.err }
