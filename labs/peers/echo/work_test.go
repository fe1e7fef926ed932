package echo

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkText(t *testing.T) {
	for text, want := range map[string]Work{
		"none": {}, "sleep:1ms": {Sleep: time.Millisecond},
		"compute:50us": {Compute: 50 * time.Microsecond},
	} {
		got := Work{Sleep: 1, Compute: 1} // Set replaces both
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		var again Work
		if err := again.Set(got.String()); err != nil || again != want {
			t.Errorf("%s became %q, and that %+v, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		"": "want none", "sleep": "want none", "sleep:": "want none", "rest:1ms": "want none",
		"none:1ms": "want none", "sleep:0s": "more than 0", "compute:-1ms": "more than 0",
		"sleep:2s": "at most 1s",
	} {
		w := Work{Sleep: 7}
		if err := w.Set(text); err == nil || !strings.Contains(err.Error(), want) || w.Sleep != 7 {
			t.Errorf("%q: %v, %+v", text, err, w)
		}
	}
}

// TestCalibrate: interruptions and a slow start change nothing.
func TestCalibrate(t *testing.T) {
	n := 0
	got := calibrate(func(steps int) time.Duration {
		n++
		d := time.Duration(3 * steps)
		if n%5 != 0 {
			d += time.Duration(n) * time.Millisecond
		}
		return d
	})
	if got != 3 {
		t.Errorf("%v ns, want 3", got)
	}
	if got := calibrate(func(int) time.Duration { return 0 }); got <= 0 {
		t.Errorf("a clock that stands still: %v ns", got)
	}
	if got := steps(50*time.Microsecond, 2.5); got != 20_000 {
		t.Errorf("%d steps, want 20000", got)
	}
	if got := steps(1, 2.5); got != 1 {
		t.Errorf("%d steps, want 1", got)
	}
	if step := stepTime(); step <= 0 || step != stepTime() {
		t.Errorf("a step takes %v ns", step)
	}
}

// TestChurn: all steps are done, and each counts, so no compiler can leave one out.
func TestChurn(t *testing.T) {
	for _, n := range []int{0, 1, 2, 101} {
		want := uint64(n) | 1
		for left := n; left > 0; left-- {
			want ^= want << 13
			want ^= want >> 7
			want ^= want << 17
		}
		if got := churn(n); got != want {
			t.Errorf("%d steps: %#x, want %#x", n, got, want)
		}
	}
}

// TestReplierWorks: the handler sleeps before it answers, and only if it is to.
func TestReplierWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, sleep := range []time.Duration{0, time.Millisecond, time.Second} {
			r := newReplier(Sizes{Request: 4, Response: 4, Work: Work{Sleep: sleep}})
			begin := time.Now()
			if got := r.reply([]byte("abcd")); string(got) != "abcd" || time.Since(begin) != sleep {
				t.Errorf("%v: %q after %v", sleep, got, time.Since(begin))
			}
		}
	})
	if r := newReplier(Sizes{}); r.work != nil {
		t.Error("work where there is none")
	}
	r := newReplier(Sizes{Response: 3, Work: Work{Compute: time.Microsecond}})
	if got := r.reply(nil); r.work == nil || len(got) != 3 {
		t.Errorf("%d bytes, work %v", len(got), r.work != nil)
	}
}

// TestPeersWork: the work of Sizes reaches the handler of each peer.
func TestPeersWork(t *testing.T) {
	for _, p := range fit() {
		t.Run(p.Name, func(t *testing.T) {
			z := Sizes{Request: 8, Response: 8, Work: Work{Sleep: 20 * time.Millisecond}}
			begin := time.Now()
			if _, err := serve(t, p, z, 1)[0](t.Context(), Payload(8)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < z.Work.Sleep {
				t.Errorf("an answer after %v", took)
			}
		})
	}
}
