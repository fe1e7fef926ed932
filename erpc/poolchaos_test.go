package erpc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// deadServer serves in a goroutine of its own until it is killed, without a word to its clients.
type deadServer struct {
	rpc  *erpc.Rpc
	end  *udp.Conn
	quit chan struct{}
	done chan error
}

func newDeadServer(t *testing.T) *deadServer {
	n, err := erpc.NewNexus(erpc.Config{Wait: erpc.WaitSleep})
	is(t, "nexus", err, nil)
	is(t, "register", n.Register(tEcho, erpc.Dispatch, func(h erpc.ReqHandle) {
		_ = h.RespondBytes(h.Data())
	}), nil)
	d := &deadServer{
		end: listen(t, "127.0.0.1:0"), quit: make(chan struct{}), done: make(chan error, 1),
	}
	d.rpc, err = n.NewRpc(d.end)
	is(t, "server", err, nil)
	go func() {
		d.done <- d.rpc.Run(func() bool {
			select {
			case <-d.quit:
				return true
			default:
				return false
			}
		})
	}()
	return d
}

func (d *deadServer) kill(t *testing.T) {
	close(d.quit)
	d.rpc.Wake()
	is(t, "run", eventually(t, d.done, "the server's loop"), nil)
	is(t, "close the socket", d.end.Close(), nil)
	_ = d.rpc.Close() // its packets go nowhere
}

// TestPoolUnreachable: a port that is unreachable is ejected long before its server counts as lost,
// and long before four timeouts.
func TestPoolUnreachable(t *testing.T) {
	checkLeaks(t)
	if runtime.GOOS != "linux" {
		t.Skip("the udp transport gives hints of unreachable ports on Linux only")
	}
	d := newDeadServer(t)
	other := newRig(t, erpc.Config{}).serve(t, "127.0.0.1:0")
	const never = time.Hour
	l, err := erpc.NewLoop(listen(t, "127.0.0.1:0"), erpc.Config{Timing: erpc.Timing{
		FailureTimeout: never, RTOMin: 5 * time.Millisecond, RTOMax: never,
	}})
	is(t, "loop", err, nil)
	dead := d.end.LocalAddr().String()
	p, err := erpc.NewPool(erpc.PoolConfig{Servers: []string{dead, other}}, l)
	is(t, "pool", err, nil)
	for stateOf(p, dead) != erpc.ServerReady || stateOf(p, other) != erpc.ServerReady {
		runtime.Gosched()
	}
	d.kill(t)
	lost := func() bool {
		for _, s := range p.Servers() {
			if s.Addr == dead && s.Err != nil && strings.Contains(s.Err.Error(), "nobody listens") {
				return true
			}
		}
		return false
	}
	var work sync.WaitGroup
	ended := make(chan struct{}, 1<<20)
	for !lost() {
		for range 2 { // one of them may be to the dead server
			work.Go(func() {
				if _, err := p.Call(bg, tEcho, id(1)); err != nil {
					is(t, "a call", err, erpc.ErrPeerLost)
				}
				ended <- struct{}{}
			})
		}
		eventually(t, ended, "a call to the other server")
	}
	work.Wait()
	is(t, "close", p.Close(), nil)
	is(t, "close", l.Close(), nil)
}

// TestPoolChaos: servers die, come back, stand still, drain and have no room, in an order that
// chance makes. Every call ends; what succeeded ran once, and what failed once at most. At the end
// all servers are ready and nothing is left.
func TestPoolChaos(t *testing.T) {
	checkLeaks(t)
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { chaos(t, seed) })
	}
}

func chaos(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	f := newFarm(t, 3)
	p := f.poolOf(erpc.Choice(seed % 2))
	options := erpc.CallOptions{WaitForReady: true, Repeat: true}
	results := make([]chan error, 400)
	for i := range results {
		typ := uint8(tEcho)
		if i%3 == 0 {
			typ = tBackground
		}
		results[i] = f.callers(through(p, options), typ, uint64(i), 1)
		f.rounds(time.Duration(rng.IntN(20)) * time.Millisecond)
		s := f.servers[rng.IntN(len(f.servers))]
		switch rng.IntN(30) {
		case 0:
			s.die()
		case 1, 2, 3:
			if s.rpc == nil {
				s.start(f.cfg)
			}
			s.mute, s.deaf = false, false
		case 4:
			s.mute = true
		case 5:
			s.deaf = true
		case 6:
			if s.rpc != nil {
				is(t, "refuse", s.rpc.Refuse(), nil)
			}
		}
	}
	for _, s := range f.servers {
		s.mute, s.deaf = false, false
	}
	f.rounds(100 * time.Millisecond) // those that stood still answer
	for _, s := range f.servers {
		s.die()
		s.start(f.cfg)
	}
	failed := 0
	for i, r := range results {
		runs := 0
		err := wait(f, r, "a call")
		for _, s := range f.servers {
			runs += s.runs[uint64(i)]
		}
		switch {
		case err == nil && runs != 1:
			t.Errorf("call %d succeeded and ran %d times", i, runs)
		case err != nil && runs > 1:
			t.Errorf("call %d failed and ran %d times", i, runs)
		case err != nil && !errors.Is(err, erpc.ErrPeerLost) && !errors.Is(err, erpc.ErrPeerRestarted):
			t.Errorf("call %d: %v", i, err)
		case err != nil:
			failed++
		}
	}
	if failed > len(results)/2 { // what was under way when servers died; most calls go through
		t.Errorf("%d calls failed", failed)
	}
	for _, s := range f.servers {
		f.state(p, s.name, erpc.ServerReady)
	}
	for _, s := range p.Servers() {
		if s.InFlight != 0 {
			t.Errorf("%d calls are under way", s.InFlight)
		}
	}
	f.tick = 20 * time.Millisecond
	f.rounds(40 * time.Second)
	if n := f.loop.Sessions(); n != 3 {
		t.Errorf("%d sessions are left", n)
	}
}
