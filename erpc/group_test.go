package erpc_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/wire"
)

// TestLoops: clients reach all loops of an address, wherever packets arrive, and each request runs
// once. Packets that come to a wrong loop are handed over; none is lost.
func TestLoops(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, place := range map[string]func(int) int{
		"steered": nil,
		"wrong":   func(chosen int) int { return chosen + 1 },
		"one":     func(int) int { return 2 },
		"any":     func(int) int { return rng.IntN(4) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newLoopRig(t, 4, 6, erpc.Config{Slots: 4, Credits: 16})
			g.steer(place)
			g.dial(4)
			g.traffic(20)
			g.once()
			st := g.sum()
			if len(g.failed) > 0 || len(g.ran) != 20*24 || st.SessionsOpened != 24 || st.Sessions != 24 {
				t.Errorf("%d failed, %d ran, %s", len(g.failed), len(g.ran), brief(st))
			}
			for i, n := range g.served {
				if n == 0 {
					t.Errorf("loop %d served nothing", i+1)
				}
			}
			if (st.HandedOver > 0) != (place != nil) || st.HandedIn != st.HandedOver ||
				st.DropHandover+st.DropNoLoop+st.DropNoSession+st.DropToken > 0 || st.RxBundled == 0 {
				t.Error(brief(st))
			}
			for _, s := range g.all { // and so are management packets
				is(t, "close", g.clients[g.clientOf(s)].CloseSession(s), nil)
			}
			g.until(func() bool { return g.sum().Sessions == 0 })
			if st := g.sum(); st.DropNoSession > 0 {
				t.Error(brief(st))
			}
			g.close()
		})
	}
}

// TestLoopsWithLoss: though packets are lost and Connects are repeated to other loops, an attempt
// to connect makes one session.
func TestLoopsWithLoss(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			g := newLoopRig(t, 3, 5, erpc.Config{
				Simulation: erpc.Simulation{Seed: 100 * (seed + 1)},
				Timing:     erpc.Timing{RTOInitial: 5 * time.Millisecond, RTOMax: 20 * time.Millisecond},
			})
			g.tick = 20_000
			g.steer(func(int) int { return rng.IntN(3) })
			for _, e := range g.memNet.ends {
				e.lose = func([]byte) bool { return rng.IntN(4) == 0 }
			}
			g.dial(3)
			g.traffic(5)
			g.once()
			if st := g.sum(); len(g.failed) > 0 || st.SessionsOpened != 15 || len(g.ran) != 75 {
				t.Errorf("%d failed, %d ran, %s", len(g.failed), len(g.ran), brief(st))
			}
			for _, e := range g.memNet.ends {
				e.lose = nil
			}
			g.close()
		})
	}
}

// TestLoopCloses: closing a loop under load fails calls of its own sessions only, and none runs
// twice. The kernel numbers its group anew. New sessions come to the loops that are left.
func TestLoopCloses(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprintf("told=%v", told), func(t *testing.T) {
			g := newLoopRig(t, 3, 4, erpc.Config{})
			g.dial(4)
			of := map[*erpc.Session]uint8{}
			for _, s := range g.all {
				of[s] = s.RemoteLoop()
			}
			for i, s := range g.all {
				for range 10 {
					g.send(g.clients[g.clientOf(s)], s, 100+500*i)
				}
			}
			g.run()
			if !told { // its transport has failed
				g.ends[0].takes = func(int) int { return 0 }
			}
			is(t, "close", g.loops[0].Close(), nil)
			g.loops[0], g.order, g.tick = nil, []int{2, 1}, 50_000
			g.traffic(5)
			g.once()
			if len(g.failed) == 0 {
				t.Error("no call of the loop was under way")
			}
			for number, s := range g.failed {
				if of[s] != 1 {
					t.Errorf("request %d of loop %d failed", number, of[s])
				}
			}
			for _, s := range g.all {
				if s.Connected() != (of[s] != 1) {
					t.Errorf("a session of loop %d: connected %v, %v", of[s], s.Connected(), s.Err())
				}
				if of[s] == 1 && told {
					is(t, "told", s.Err(), erpc.ErrPeerClosed)
				} else if of[s] == 1 { // another loop says that it does not know the session
					is(t, "not told", s.Err(), erpc.ErrPeerRestarted)
				}
			}
			if st := g.sum(); !told && st.DropNoLoop == 0 {
				t.Errorf("nobody asked the dead loop for anything: %s", brief(st))
			}
			before := len(g.ran)
			g.all = nil
			g.dial(4)
			g.traffic(3)
			for _, s := range g.all {
				if s.RemoteLoop() == 1 || s.Err() != nil {
					t.Errorf("a session of loop %d, %v", s.RemoteLoop(), s.Err())
				}
			}
			if len(g.ran) != before+3*16 {
				t.Errorf("%d requests ran, want %d", len(g.ran)-before, 3*16)
			}
			g.close()
		})
	}
}

// TestLoopCookieGone: a client whose cookie names a loop that has ended gets another cookie, and a
// session.
func TestLoopCookieGone(t *testing.T) {
	for seed := range uint64(4) {
		g := newLoopRig(t, 2, 1, erpc.Config{Simulation: erpc.Simulation{Seed: seed + 1}})
		s, err := g.clients[0].CreateSessionTo(g.ends[0].addr)
		is(t, "dial", err, nil)
		named := 0
		g.memNet.ends[2].lose = func(pkt []byte) bool { // the client's; the cookie comes, no more
			if op := wire.Op(pkt[1]); op == wire.OpChallenge {
				named = int(pkt[wire.HeaderSize+8+wire.CookieLoopAt])
			}
			return wire.Op(pkt[1]) == wire.OpAccept
		}
		g.until(func() bool { return named != 0 })
		is(t, "close", g.loops[named-1].Close(), nil)
		g.loops[named-1], g.order = nil, []int{2 - named}
		g.memNet.ends[2].lose = nil
		g.until(s.Connected)
		if got := int(s.RemoteLoop()); got != 3-named {
			t.Errorf("the session is with loop %d, want %d", got, 3-named)
		}
		g.close()
	}
}

// TestLoopsAsked: a first Connect may ask for a loop.
func TestLoopsAsked(t *testing.T) {
	for asked, want := range map[uint8]func(loop uint8) bool{
		1: func(l uint8) bool { return l == 1 }, 3: func(l uint8) bool { return l == 3 },
		9: func(l uint8) bool { return l >= 1 && l <= 3 },
	} {
		g := newLoopRig(t, 3, 3, erpc.Config{})
		for _, e := range g.ends {
			e.lose = func(pkt []byte) bool {
				if wire.Op(pkt[1]) == wire.OpConnect && pkt[wire.CookieLoop] == 0 {
					token := wire.OpenMgmt(pkt)
					pkt[11] = asked
					wire.SealMgmt(pkt, token)
				}
				return false
			}
		}
		g.dial(3)
		for _, s := range g.all {
			if !want(s.RemoteLoop()) {
				t.Errorf("asked for loop %d, got %d", asked, s.RemoteLoop())
			}
		}
		g.close()
	}
}

// TestLoopsAllocateNothing: neither steered calls nor those that are handed over allocate.
func TestLoopsAllocateNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	for name, place := range map[string]func(int) int{
		"steered": nil, "wrong": func(chosen int) int { return chosen + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			g := newLoopRig(t, 2, 1, erpc.Config{})
			g.steer(place)
			g.dial(1)
			c, s := g.clients[0], g.all[0]
			req, err := c.Alloc(32)
			is(t, "alloc", err, nil)
			resp, err := c.Alloc(32)
			is(t, "alloc", err, nil)
			done := false
			request := erpc.Request{Type: 1, Req: req, Resp: resp, Done: func(c erpc.Completion) {
				done = true
				is(t, "call", c.Err, nil)
			}}
			call := func() {
				done = false
				if _, err := c.EnqueueRequest(s, request); err != nil {
					t.Fatal(err)
				}
				for !done {
					g.now += 1000
					for _, r := range []*erpc.Rpc{c, g.loops[0], g.loops[1]} {
						if _, err := r.RunOnce(); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			for range 1000 { // the buffers of all slots have been used
				call()
			}
			if n := testing.AllocsPerRun(1000, call); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if over := g.sum().HandedOver; (over > 1000) != (place != nil) {
				t.Errorf("%d packets were handed over", over)
			}
		})
	}
}
