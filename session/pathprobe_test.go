package session

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// prober drives a PathProbe of a session with packets of 1472 bytes.
type prober struct {
	t      *testing.T
	r      *rig
	p      *PathProbe
	now    monotime.Time
	random uint64
}

// probeTry is a ping that has been sent.
type probeTry struct {
	seq  uint64
	size int
}

const probedSize = 1472

func newProber(t *testing.T) *prober {
	p := rigParams
	p.PerPacket = probedSize - wire.HeaderSize
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	return &prober{t: t, r: r, p: NewPathProbe(r.cl), random: 1 << 63}
}

// next lets time pass until the probe sends a ping or has a result.
func (a *prober) next() (sent probeTry, result ProbeResult) {
	a.t.Helper()
	out := NewOut(4, false)
	for range 1000 {
		a.now += ms
		result = a.p.Tick(&a.r.cl.End, func() uint64 { a.random += 101; return a.random }, a.now, out)
		if n := len(out.Tx); n > 1 || n == 1 && result != ProbeGoesOn {
			a.t.Fatalf("%d pings at once, which may be one train; result %d", n, result)
		}
		if len(out.Tx) == 1 {
			_, q := alive(a.t, out.Tx[0])
			return probeTry{q.Seq, len(flatten(out.Tx[0]).raw)}, result
		}
		if result != ProbeGoesOn {
			return sent, result
		}
	}
	a.t.Fatal("nothing is asked for a second")
	return sent, result
}

// run lets a path answer the pings for which it says so, until there is a result.
func (a *prober) run(answers func(q probeTry) bool) ProbeResult {
	a.t.Helper()
	for {
		q, result := a.next()
		if result != ProbeGoesOn {
			return result
		}
		if answers(q) {
			a.p.OnPong(q.seq, a.now)
		}
	}
}

// TestProbeFindsSize: a path that carries packets up to a size only is known after a dozen rounds,
// with the largest size that fits. Those of a round differ in size and leave one by one.
func TestProbeFindsSize(t *testing.T) {
	for _, c := range []struct{ path, fits int }{{1471, 1452}, {1451, 1232}, {1231, 1024}} {
		a := newProber(t)
		sizes := map[int]int{}
		got := a.run(func(q probeTry) bool {
			sizes[q.size]++
			return q.size <= c.path
		})
		if got != ProbeTooLong || a.p.Fits() != c.fits || a.p.Size() != probedSize {
			t.Errorf("a path of %d bytes: result %d, fits %d", c.path, got, a.p.Fits())
		}
		if n := sizes[probedSize]; n < probeWins || n > probeWins+1 || len(sizes) != 4 {
			t.Errorf("a path of %d bytes: pings by size %v", c.path, sizes)
		}
		if a.now > 250*ms {
			t.Errorf("a path of %d bytes: it took %v", c.path, time.Duration(a.now))
		}
	}
}

// TestProbePassed: a probe begins with small pings until one is answered. Then one large one that
// is answered ends it, in whatever round, also late.
func TestProbePassed(t *testing.T) {
	for lost := range 9 {
		a := newProber(t)
		small, large := 0, 0
		got := a.run(func(q probeTry) bool {
			if q.size == probedSize {
				if small <= lost {
					t.Fatalf("a large ping after %d small ones, of which none is answered", small)
				}
				large++
				return large > lost
			}
			small++
			return small > lost
		})
		if got != ProbePassed || large != lost+1 {
			t.Errorf("%d lost: result %d after %d large pings", lost, got, large)
		}
	}
	a := newProber(t)
	var first uint64
	got := a.run(func(q probeTry) bool {
		if q.size == probedSize && first == 0 {
			first = q.seq
		}
		return q.size < probedSize
	})
	if a.p.OnPong(first, a.now); got != ProbeTooLong || a.p.result() != ProbePassed {
		t.Errorf("result %d, and %d with a late answer", got, a.p.result())
	}
}

// TestProbeUnclear: a probe whose pings are not answered, or too few of them, ends and knows
// nothing. Answers to what it has not asked count for nothing.
func TestProbeUnclear(t *testing.T) {
	a := newProber(t)
	if got := a.run(func(q probeTry) bool {
		a.p.OnPong(q.seq-1, a.now)
		a.p.OnPong(q.seq^1, a.now)
		return false
	}); got != ProbeUnclear {
		t.Errorf("no answer: result %d", got)
	}
	a = newProber(t)
	small := 0
	if got := a.run(func(q probeTry) bool {
		if q.size < probedSize {
			small++
		}
		return q.size < probedSize && small < probeWins
	}); got != ProbeUnclear {
		t.Errorf("a few answers: result %d", got)
	}
}

// TestProbeUnderLoss: where pings of all sizes are lost alike, one way in three each, hardly any
// probe says that the path does not carry the size.
func TestProbeUnderLoss(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	wrong := 0
	for range 5000 {
		a := newProber(t)
		if a.run(func(probeTry) bool { return rnd.Float64() < 0.7*0.7 }) == ProbeTooLong {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of 5000 probes are wrong", wrong)
	}
}

// TestProbeYields: a probe whose pings are lost in a full queue waits ever longer for the first
// answer, then has one round under way, and more of them only as rounds are answered.
func TestProbeYields(t *testing.T) {
	a := newProber(t)
	a.p.every = minProbeSpan
	sent := 0
	count := func(d time.Duration, answers bool) int {
		out := NewOut(4, false)
		from := sent
		for end := a.now.Add(d); a.now < end; a.now += ms {
			if a.p.Tick(&a.r.cl.End, func() uint64 { a.random += 101; return a.random }, a.now, out) !=
				ProbeGoesOn {
				t.Fatal("the probe is over")
			}
			for i := range out.Tx {
				_, q := alive(t, out.Tx[i])
				if sent++; answers && len(flatten(out.Tx[i]).raw) < probedSize {
					a.p.OnPong(q.Seq, a.now)
				}
			}
			out.Reset()
		}
		return sent - from
	}
	if n := count(time.Second, false); n < 6 || n > 12 {
		t.Errorf("%d small pings in a second without an answer", n)
	}
	for !a.p.begun {
		count(ms, true)
	}
	if n := count(maxProbeSpan, true); n < 8 || n > 10 {
		t.Errorf("%d pings in %v while they are answered", n, maxProbeSpan)
	}
	count(2*maxProbeSpan, true)
	if n := count(8*4*minProbeSpan, false); n > 4*probeAhead+4 {
		t.Errorf("%d pings leave before one of them is waited for", n)
	}
	if n := count(2*time.Second, false); n < 2*4*4 || n > 4*(2*int(time.Second/maxProbeWait)+3) {
		t.Errorf("%d pings in two seconds without an answer", n)
	}
}
