package simtest

import (
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/transport/sim"
)

// clock is the time as a node's processes see it: it may go back, jump ahead, and run at another
// speed than the network's.
type clock struct {
	net   *sim.Network
	since sim.Time // in the network's time: the last change
	at    sim.Time // what it said then
	speed float64
}

func newClock(net *sim.Network) *clock {
	return &clock{net: net, at: net.Now(), since: net.Now(), speed: 1}
}

func (k *clock) now() sim.Time {
	return k.at + sim.Time(float64(k.net.Now().Sub(k.since))*k.speed)
}

// step moves the clock, not to before its epoch, and gives it another speed.
func (k *clock) step(by time.Duration, speed float64) {
	k.at, k.since, k.speed = max(k.now().Add(by), 1), k.net.Now(), speed
}

// networks returns when the network's clock shows what this one will show at t.
func (k *clock) networks(t sim.Time) sim.Time {
	if t == sim.Never {
		return t
	}
	return k.net.Now().Add(time.Duration(float64(t.Sub(k.now()))/k.speed) + 1)
}

// stepped reports whether a seed has clocks that cannot be trusted.
func stepped(seed uint64) bool { return seed%5 == 3 }

// clocks plans that clocks go back, by a moment or by all that they have counted, jump ahead and
// run at other speeds.
func (s *scenario) clocks(seed uint64) {
	r, c := rand.New(rand.NewPCG(seed, 78)), s.c
	for _, n := range c.nodes {
		n.clock.step(11*time.Hour, 1)
		for range r.IntN(6) {
			by := pick(r, -time.Microsecond, -5*time.Millisecond, -time.Second, -11*time.Hour, 0,
				time.Millisecond, 40*time.Millisecond, time.Second, 11*time.Hour)
			speed := pick(r, 0.9, 0.999, 1, 1.001, 1.1)
			c.net.After(time.Duration(r.Int64N(int64(s.chaos))), func() {
				n.clock.step(by, speed)
				c.steps++
			})
		}
	}
}
