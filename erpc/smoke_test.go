package erpc_test

import (
	"bytes"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// driven makes an Rpc a driver of the simulated network.
type driven struct {
	t *testing.T
	r *erpc.Rpc
}

func (d driven) RunOnce() {
	if _, err := d.r.RunOnce(); err != nil {
		d.t.Error(err)
	}
}

func (d driven) NextWake() sim.Time { return d.r.NextWake() }

func TestEchoInSimulation(t *testing.T) {
	for _, size := range []int{0, 1, 32, 1000, 100_000, 1 << 20} {
		net, err := sim.New(sim.Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		open := func(name string) *erpc.Rpc {
			ep, err := net.NewEndpoint(sim.EndpointConfig{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			n, err := erpc.NewNexus(erpc.Config{Simulation: erpc.Simulation{Seed: 7, Clock: net.Now}})
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Register(1, erpc.Dispatch,
				func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }); err != nil {
				t.Fatal(err)
			}
			r, err := n.NewRpc(ep)
			if err != nil {
				t.Fatal(err)
			}
			net.Attach(ep, driven{t, r})
			return r
		}
		server, client := open("server"), open("client")
		s, err := client.CreateSession(server.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		req, _ := client.Alloc(size)
		for i := range req.Data() {
			req.Data()[i] = byte(i * 7)
		}
		var done int
		_, err = client.EnqueueRequest(s,
			erpc.Request{Type: 1, Req: req, Tag: 5, Done: func(c erpc.Completion) {
				done++
				if c.Err != nil || c.Tag != 5 || !bytes.Equal(c.Req.Data(), c.Resp.Data()) {
					t.Errorf("size %d: %v", size, c.Err)
				}
				c.Req.Free()
				if c.Resp != nil {
					c.Resp.Free()
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		net.RunWhile(func() bool { return done == 0 }, net.Now()+1e9)
		if done != 1 {
			t.Fatalf("size %d: done %d, client %+v", size, done, client.Stats())
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		net.RunUntil(net.Now() + 1e6)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}
