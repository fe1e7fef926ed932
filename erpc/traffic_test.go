package erpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestTraffic: calls of all sizes on a network that loses packets and takes only some of a burst.
// Some are given up, some wait for their answers, and sessions end in the middle of them.
func TestTraffic(t *testing.T) {
	eachNet(t, func(t *testing.T, net *memNet) {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				net := &memNet{now: net.now, lends: net.lends}
				runTraffic(t, net, rand.New(rand.NewPCG(seed, 5)))
			})
		}
	})
}

func runTraffic(t *testing.T, net *memNet, r *rand.Rand) {
	p := newErrPairOn(t, net, erpc.Config{
		Slots: 4, Credits: 16, Burst: 8, Checksum: r.IntN(2) == 0,
		Timing: erpc.Timing{RTOInitial: 5 * time.Millisecond, RTOMax: 20 * time.Millisecond},
	})
	for _, e := range []*memEnd{p.cend, p.send} {
		e.lose = func([]byte) bool { return r.IntN(30) == 0 }
		e.takes = func(n int) int { return r.IntN(n + 1) }
	}
	p.tick = 50_000
	var results []*result
	given := map[*result]bool{} // those that need not get an answer
	for range 200 {
		typ := []uint8{tEcho, tHold, tBackground, tHuge}[r.IntN(4)]
		timeout := time.Duration(0)
		if r.IntN(8) == 0 {
			timeout = time.Duration(1 + r.IntN(5_000_000))
		}
		res := p.enqueue(typ, r.IntN(20_000), timeout)
		results = append(results, res)
		given[res] = timeout != 0
		for range r.IntN(20) {
			p.step()
		}
		if r.IntN(8) == 0 {
			old := results[r.IntN(len(results))]
			given[old] = true
			is(t, "cancel", p.client.Cancel(old.id), nil)
		}
		p.respondSome(r)
		if r.IntN(40) == 0 {
			is(t, "close", p.client.CloseSession(p.sess), nil)
			for _, old := range results {
				if old.ends != 1 {
					t.Fatalf("a request of a closed session ended %d times", old.ends)
				}
				given[old] = true
			}
			p.connect()
		}
	}
	p.until(func() bool {
		p.respondSome(r)
		for _, res := range results {
			if res.ends == 0 {
				return false
			}
		}
		return true
	})
	for i, res := range results {
		if res.ends != 1 || res.err != nil && !given[res] || !isGivenUp(res.err) {
			t.Errorf("call %d: %d ends, %v", i, res.ends, res.err)
		}
		want := make([]byte, len(res.resp))
		if res.pattern {
			fillPattern(want)
		}
		if !bytes.Equal(res.resp, want) {
			t.Errorf("call %d: the response is damaged", i)
		}
	}
	p.close()
}

// isGivenUp reports whether err is none, or one that the client itself made.
func isGivenUp(err error) bool {
	return err == nil || errors.Is(err, erpc.ErrDeadline) || errors.Is(err, erpc.ErrCancelled) ||
		errors.Is(err, erpc.ErrClosed) || errors.Is(err, erpc.ErrPeerClosed)
}

// respondSome answers some of the requests that wait. Those that have ended are no harm.
func (p *errPair) respondSome(r *rand.Rand) {
	p.runTasks()
	for len(p.held) > r.IntN(4) {
		h := p.held[0]
		p.held = p.held[1:]
		if err := h.RespondBytes(h.Data()); err != nil && !errors.Is(err, erpc.ErrResponded) {
			p.tb.Error(err)
		}
	}
}
