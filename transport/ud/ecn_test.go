//go:build linux

package ud

import (
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// rpcOn opens an Rpc that echoes, closed when the test ends.
func rpcOn(t *testing.T, addr string, cfg erpc.Config) *erpc.Rpc {
	t.Helper()
	n, err := erpc.NewNexus(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = n.Register(1, erpc.Dispatch, func(h erpc.ReqHandle) {
		if err := h.RespondBytes(h.Data()[:8]); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	needLab(t)
	conn, err := Listen(addr, Config{ECN: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.NewRpc(conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestDCQCNOnMarksOfRED: a switch that marks packets instead of dropping them (RED) slows a
// session down, and it recovers when the marks end.
func TestDCQCNOnMarksOfRED(t *testing.T) {
	cfg := erpc.Config{Congestion: erpc.Congestion{Algorithm: erpc.CCDCQCN, LinkRate: 1e9}}
	server, client := rpcOn(t, hostB, cfg), rpcOn(t, hostA, cfg)
	s, err := client.CreateSession(server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	// call makes RPCs one after the other until enough, and fails after very many.
	call := func(what string, enough func(calls int, limited bool) bool) {
		for calls := 0; ; calls++ {
			_, limited := s.Rate()
			if enough(calls, limited) {
				t.Logf("%s after %d calls", what, calls)
				return
			}
			if calls == 20_000 {
				rate, _ := s.Rate()
				t.Fatalf("%s: not after %d calls, rate %.3g bit/s", what, calls, rate)
			}
			req, err := client.Alloc(40_000)
			if err != nil {
				t.Fatal(err)
			}
			over := false
			_, err = client.EnqueueRequest(s, erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
				over = true
				if c.Err != nil {
					t.Fatal(c.Err)
				}
				c.Req.Free()
				c.Resp.Free()
			}})
			if err != nil {
				t.Fatal(err)
			}
			for !over {
				for _, r := range []*erpc.Rpc{client, server} {
					if _, err := r.RunOnce(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	call("idle", func(calls int, limited bool) bool {
		if limited {
			t.Fatal("limited without marks")
		}
		return calls == 100
	})
	command(t, "tc qdisc add dev va root handle 1: tbf rate 100mbit burst 20k latency 500ms")
	clear := func() { command(t, "tc qdisc del dev va root") }
	defer func() { clear() }()
	call("queueing", func(calls int, limited bool) bool {
		if limited {
			t.Fatal("limited by a queue that marks nothing")
		}
		return calls == 50
	})
	command(t, "tc qdisc add dev va parent 1:1 handle 2: red limit 1000000 min 8000 max 24000 avpkt "+
		"1000 burst 14 probability 1 bandwidth 100mbit ecn")
	call("slower", func(_ int, limited bool) bool { return limited })
	clear()
	clear = func() {}
	call("recovered", func(_ int, limited bool) bool { return !limited })
}
