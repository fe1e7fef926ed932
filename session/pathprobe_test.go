package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	probeSize = 1452
	probeSpan = 20 * time.Millisecond
)

// prober drives a PathProbe of the client's end. It lets a span pass after each call of tick.
type prober struct {
	t      *testing.T
	p      *PathProbe
	out    *Out
	now    monotime.Time
	random uint64
	rounds []uint64 // numbers of the padded pings
}

func newProber(t *testing.T) *prober {
	p := NewPathProbe(probeSize, probeSpan)
	return &prober{t: t, p: p, out: NewOut(4, false), random: 1 << 63}
}

// tick calls Tick and notes the round, if there is one: the first call asks with a small ping, and
// another one a tick later with a padded one.
func (a *prober) tick() ProbeResult {
	a.t.Helper()
	got, asked := a.once(1, wire.HeaderSize+wire.AliveSize)
	if asked {
		a.rounds = append(a.rounds, a.random&^1)
		a.now += ms
		if second, padded := a.once(0, probeSize); !padded || second != ProbeGoesOn {
			a.t.Fatalf("after the small ping: result %d, another ping: %v", second, padded)
		}
	}
	a.now = a.now.Add(probeSpan)
	return got
}

// once calls Tick, which sends nothing or a ping of that size and number in the round.
func (a *prober) once(number uint64, size int) (got ProbeResult, asked bool) {
	a.t.Helper()
	random := func() uint64 { // odd and even in turn
		a.random += 101
		return a.random
	}
	got = a.p.Tick(clientEnd(), random, a.now, a.out)
	if n := len(a.out.Tx); n > 1 {
		a.t.Fatalf("%d pings at once, which may be one train", n)
	}
	for _, tx := range a.out.Tx {
		op, q := alive(a.t, tx)
		if op != wire.OpPing || q.To != serverToken || q.Seq != a.random&^1+number {
			a.t.Fatalf("ping %d is %v, %+v, random number %#x", number, op, q, a.random)
		}
		if n := len(flatten(tx).raw); n != size {
			a.t.Fatalf("ping %d has %d bytes, want %d", number, n, size)
		}
		asked = true
	}
	a.out.Reset()
	return got, asked
}

// ask lets n rounds pass, each of which goes on.
func (a *prober) ask(n int) {
	a.t.Helper()
	before := len(a.rounds)
	for range n {
		if got := a.tick(); got != ProbeGoesOn {
			a.t.Fatalf("round %d: result %d", len(a.rounds), got)
		}
	}
	if asked := len(a.rounds) - before; asked != n {
		a.t.Fatalf("%d rounds in %d spans", asked, n)
	}
}

// want compares the result, with which the probe asks nothing more.
func (a *prober) want(what string, want ProbeResult) {
	a.t.Helper()
	before := len(a.rounds)
	for range 3 {
		if got := a.tick(); got != want || len(a.rounds) != before {
			a.t.Errorf("%s: result %d after %d rounds, want %d after %d",
				what, got, len(a.rounds), want, before)
		}
	}
}

// padded and small answer the pings of a round, from 0.
func (a *prober) padded(round int) { a.p.OnPong(a.rounds[round]) }
func (a *prober) small(round int)  { a.p.OnPong(a.rounds[round] + 1) }

// TestProbePassed: an answer to the padded ping of any of six rounds shows that the path carries
// the size, whatever became of the others.
func TestProbePassed(t *testing.T) {
	for round := range probeRounds {
		a := newProber(t)
		a.ask(probeRounds)
		for i := range probeSmall {
			a.small(i)
		}
		a.padded(round)
		a.want("the padded ping is answered", ProbePassed)
	}
	a := newProber(t)
	a.ask(1)
	a.padded(0)
	a.want("the first ping is answered", ProbePassed)
	a.small(0)
	a.want("the small one is answered too", ProbePassed)
}

// TestProbeTooLong: the path does not carry what is not answered in six rounds while three small
// pings are. That is known a span after the last round.
func TestProbeTooLong(t *testing.T) {
	a := newProber(t)
	for i := range probeRounds {
		a.ask(1)
		a.small(i)
	}
	a.now--
	if got := a.tick(); got != ProbeGoesOn {
		t.Errorf("before the last span is over: result %d", got)
	}
	a.now = a.now.Add(-probeSpan) + 1
	a.want("all small ones are answered", ProbeTooLong)
	a.padded(probeRounds - 1)
	a.want("an answer comes all the same", ProbePassed)
}

// TestProbeOfSilentPeer: while fewer than three small pings are answered, the peer may be silent,
// and the probe goes on asking. Then a third answer counts, or one to a padded ping.
func TestProbeOfSilentPeer(t *testing.T) {
	for _, passes := range []bool{false, true} {
		a := newProber(t)
		a.ask(probeRounds - 1)
		a.small(0)
		a.small(3)
		a.ask(5*probeRounds + 1) // the oldest that is known has the place of round 0
		if passes {
			a.padded(len(a.rounds) - probeRounds)
			a.want("an old padded ping is answered", ProbePassed)
		} else {
			a.small(len(a.rounds) - probeRounds)
			a.want("an old small ping is answered", ProbeTooLong)
		}
	}
}

// TestProbeHeedsItsOwn: answers that come twice count once. Answers to other questions, or to those
// of rounds that are forgotten, count for nothing.
func TestProbeHeedsItsOwn(t *testing.T) {
	a := newProber(t)
	others := func() {
		a.p.OnPong(0) // what rounds hold that were not asked
		a.p.OnPong(1)
		for _, seq := range a.rounds {
			a.p.OnPong(seq - 1)
			a.p.OnPong(seq + 2)
			a.p.OnPong(^seq)
		}
	}
	others()
	for range 2 * probeRounds {
		a.ask(1)
		others()
	}
	for round := range probeRounds {
		a.padded(round)
		a.small(round)
	}
	for range 5 {
		a.small(probeRounds)
		a.small(probeRounds + 1)
	}
	a.ask(1)
	a.small(2*probeRounds - 1)
	a.want("three are answered", ProbeTooLong)
}
