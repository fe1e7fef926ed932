package rfp

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestInLoop has an Rpc, a client and a server of this package in one goroutine's loop: a handler
// of the Rpc makes a call here and answers when that has ended.
func TestInLoop(t *testing.T) {
	g := Geometry{Slots: 4, Request: 256, Response: 256}
	link, other := shmPair(t, g)
	srv, err := NewServer(ServerConfig{Geometry: g, Clock: monotime.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	srv.Handle(1, func(req, resp []byte) ([]byte, error) {
		return fmt.Appendf(resp, "<%s>", req), nil
	})
	if err := srv.Serve(other); err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(link, Config{Geometry: g})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	err = n.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) {
		q := Call{Kind: 1, Body: h.Data(), Done: func(_ uint64, resp []byte, err error) {
			if err != nil {
				_ = h.RespondError(err)
				return
			}
			_ = h.RespondBytes(resp)
		}}
		if err := c.Send(&q); err != nil {
			_ = h.RespondError(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	front, back := mustRpc(t, n), mustRpc(t, n)
	loop := func(until func() bool) {
		for !until() {
			for _, r := range []*erpc.Rpc{front, back} {
				if _, err := r.RunOnce(); err != nil {
					t.Fatal(err)
				}
			}
			c.Poll(monotime.Now())
			srv.Poll(8)
		}
	}
	loop(c.Ready)
	session, err := front.CreateSession(back.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for i := range 100 {
		req, err := front.Alloc(8)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%08d", i)
		copy(req.Data(), text)
		if _, err := front.EnqueueRequest(session, erpc.Request{Type: 1, Req: req,
			Done: func(d erpc.Completion) {
				ended++
				if d.Err != nil || string(d.Resp.Data()) != "<"+text+">" {
					t.Errorf("call %d: %v", i, d.Err)
				}
				d.Req.Free()
				if d.Resp != nil {
					d.Resp.Free()
				}
			}}); err != nil {
			t.Fatal(err)
		}
		loop(func() bool { return ended == i+1 })
	}
}

func mustRpc(t *testing.T, n *erpc.Nexus) *erpc.Rpc {
	t.Helper()
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var tr transport.Transport = conn
	r, err := n.NewRpc(tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}
