package cctest

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
)

// Want holds the bounds that the sessions of a bottleneck must reach.
type Want struct {
	Jain        float64       // at least, see [Jain]
	Utilisation float64       // at least, part of the link
	Delay99     time.Duration // at most: the 99th percentile of the time in the queue
}

// Expect fails tb, without ending it, if b has not reached w.
func (b *Bottleneck) Expect(tb testing.TB, w Want) {
	tb.Helper()
	report(tb, b.reaches(w))
	tb.Logf("%d sessions: %.1f us median, %.1f us 99 %%, utilisation %.3f, Jain %.4f", len(b.sessions),
		float64(b.Delay(50))/1000, float64(b.Delay(99))/1000, b.Utilisation(), Jain(b.Rates()))
}

// reaches says what of w is not reached. No measure that is not a number reaches anything.
func (b *Bottleneck) reaches(w Want) error {
	if b.err != nil {
		return b.err
	}
	var errs []error
	miss := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%d sessions: "+format,
			append([]any{len(b.sessions)}, args...)...))
	}
	if got := Jain(b.Rates()); !(got >= w.Jain) {
		miss("Jain's index %.3f, want %.2f", got, w.Jain)
	}
	if got := b.Utilisation(); !(got >= w.Utilisation && got <= 1.001) {
		miss("utilisation %.3f, want %.2f", got, w.Utilisation)
	}
	if got := b.Delay(99); got > w.Delay99 {
		miss("99 %% of the packets wait up to %v, want %v", got, w.Delay99)
	}
	return errors.Join(errs...)
}

// Converge tests that two sessions that begin far apart get rates that differ by at
// most a fifth. It adds them to b and runs it, without credits so that only the rates
// matter. at makes an algorithm whose controllers begin at rate, bytes per second.
func Converge(tb testing.TB, b *Bottleneck, at func(rate float64) cc.Algorithm, w Want) {
	tb.Helper()
	report(tb, b.converge(at))
	b.Expect(tb, w)
}

func (b *Bottleneck) converge(at func(rate float64) cc.Algorithm) error {
	b.Credits = 0
	for _, part := range []float64{0.9, 0.1} {
		b.Add(at(part*b.Link), 1, part*b.Link, 0, 0)
	}
	b.Run()
	r := b.Rates()
	if ratio := r[0] / r[1]; !(math.Abs(ratio-1) <= 0.2) {
		return fmt.Errorf("two sessions: rates %.4g and %.4g", r[0], r[1])
	}
	return nil
}

// Incast tests n sessions that begin at link rate, 1 us after one another: they share
// the link, the queue stays short, and the credits, which alone bound the queue in the
// first round trips, always bound it. It adds the sessions to b, which needs credits,
// and runs it.
func Incast(tb testing.TB, b *Bottleneck, a cc.Algorithm, n int, w Want) {
	tb.Helper()
	report(tb, b.incast(a, n))
	b.Expect(tb, w)
}

func (b *Bottleneck) incast(a cc.Algorithm, n int) error {
	b.Add(a, n, b.Link, 0, time.Microsecond)
	b.Run()
	if most := b.Delay(100); most > time.Duration(n*b.Credits)*b.duration(b.Link) {
		return fmt.Errorf("%d sessions: a packet waited %v, longer than all credits", n, most)
	}
	return nil
}
