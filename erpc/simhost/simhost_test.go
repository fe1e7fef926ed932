package simhost_test

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/erpc/simhost"
	"github.com/userspace-rpc/erpc/transport/sim"
)

const us = time.Microsecond

// Request types: in the loop, by the burst, in a worker.
const typeLoop, typeBatch, typeWorker = 1, 2, 3

var costs = map[uint8]time.Duration{typeLoop: 3 * us, typeBatch: 2 * us, typeWorker: 20 * us}

// rig is a server of one loop and one worker, and a client with a core of its own.
type rig struct {
	net            *sim.Network
	server, client *simhost.Process
	from           *simhost.Loop
	session        *erpc.Session
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRig(t *testing.T, cores int) *rig {
	net, err := sim.New(sim.Config{Seed: 1, PropDelay: us})
	must(t, err)
	p, err := net.NewProcessor(sim.ProcessorConfig{Cores: cores})
	must(t, err)
	ws, err := p.NewWorkers(1, 0, sim.Waiting{})
	must(t, err)
	r := &rig{net: net}
	r.server, err = simhost.New(simhost.Config{Net: net, Workers: ws,
		Erpc: erpc.Config{NoHugepages: true}, HandOver: us, Cost: func(w simhost.Work) time.Duration {
			return costs[w.Type] * time.Duration(len(w.Requests))
		}})
	must(t, err)
	answer := func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
	must(t, r.server.Register(typeLoop, erpc.Dispatch, answer))
	must(t, r.server.Register(typeWorker, erpc.Background, answer))
	must(t, r.server.RegisterBatch(typeBatch, func(reqs []erpc.ReqHandle) {
		for _, h := range reqs {
			answer(h)
		}
	}))
	to, err := r.server.Loop(sim.EndpointConfig{Node: 0, Processor: p, RunCost: 100, PacketCost: 100})
	must(t, err)
	r.client, err = simhost.New(simhost.Config{Net: net, Erpc: erpc.Config{NoHugepages: true}})
	must(t, err)
	own, err := net.NewProcessor(sim.ProcessorConfig{Cores: 1})
	must(t, err)
	r.from, err = r.client.Loop(sim.EndpointConfig{Node: 1, Processor: own})
	must(t, err)
	r.from.Do(func() {
		r.session, err = r.from.Rpc().CreateSessionTo(to.Endpoint().LocalAddr())
		must(t, err)
	})
	net.RunUntil(net.Now().Add(time.Millisecond))
	t.Cleanup(func() {
		r.client.Crash()
		r.server.Crash()
		if err := errors.Join(r.client.Err(), r.server.Err()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// calls makes requests of these types at one time, and returns what each took.
func (r *rig) calls(t *testing.T, types ...uint8) []time.Duration {
	t.Helper()
	took := make([]time.Duration, len(types))
	r.from.Do(func() {
		begin := r.net.Now()
		for i, typ := range types {
			b, err := r.from.Rpc().Alloc(8)
			must(t, err)
			_, err = r.from.Rpc().EnqueueRequest(r.session, erpc.Request{Type: typ, Req: b,
				Done: func(c erpc.Completion) {
					must(t, c.Err)
					took[i] = r.net.Now().Sub(begin)
					c.Req.Free()
					c.Resp.Free()
				}})
			must(t, err)
		}
	})
	r.net.RunUntil(r.net.Now().Add(time.Millisecond))
	return took
}

// TestServiceTimes: a call takes what the network, the endpoint and its handler take.
func TestServiceTimes(t *testing.T) {
	const there, loop = 2 * us, 300 // a pass and two packets
	r := newRig(t, 2)
	for typ, want := range map[uint8]time.Duration{
		typeLoop:  2*there + loop + 3*us,
		typeBatch: 2*there + loop + 2*us,
		// A pass to take the request, one to answer, and the hand-over both ways.
		typeWorker: 2*there + loop + 100 + 2*us + 20*us,
	} {
		if got := r.calls(t, typ)[0]; got != want {
			t.Errorf("type %d took %v, want %v", typ, got, want)
		}
	}
}

// TestSharedCore: with a core for each a request in the loop passes the worker's; with one core for
// both the loop comes when the worker has ended, since there are no slices.
func TestSharedCore(t *testing.T) {
	for cores, slow := range map[int]bool{1: true, 2: false} {
		r := newRig(t, cores)
		r.calls(t, typeLoop)
		var second time.Duration
		r.net.After(12*us, func() {
			begin := r.net.Now()
			r.from.Do(func() {
				b, err := r.from.Rpc().Alloc(8)
				must(t, err)
				_, err = r.from.Rpc().EnqueueRequest(r.session, erpc.Request{Type: typeLoop, Req: b,
					Done: func(c erpc.Completion) {
						must(t, c.Err)
						second = r.net.Now().Sub(begin)
						c.Req.Free()
						c.Resp.Free()
					}})
				must(t, err)
			})
		})
		first := r.calls(t, typeWorker)[0]
		if got := second > 15*us; got != slow || first == 0 || second == 0 {
			t.Errorf("%d cores: the worker's call took %v, the loop's %v", cores, first, second)
		}
	}
}

func TestBadConfig(t *testing.T) {
	if _, err := simhost.New(simhost.Config{}); !errors.Is(err, simhost.ErrConfig) {
		t.Error(err)
	}
}
