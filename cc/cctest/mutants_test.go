package cctest

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
)

func TestRun(t *testing.T) {
	Run(t, cc.Algorithm{Name: "steady", New: newSteady}, steadyMin)
}

// Broken controllers wrongly share these, and allocate into them.
var (
	common  float64
	calls   time.Duration
	garbage *Event
)

// mutants pairs each way of breaking a controller with the case that must notice it
// and a part of what that case says.
var mutants = []struct {
	name     string
	by, says string
	spoil    spoiler
}{
	{"NaN", "any sequence", "rate NaN is not within",
		func(_ *broken, e Event, rate *float64, _ *time.Duration) { *rate = math.NaN() }},
	{"NaN from a round trip of 0", "any sequence", "rate NaN is not within",
		func(_ *broken, e Event, rate *float64, _ *time.Duration) {
			*rate += 0 * (1 / float64(e.RTT))
		}},
	{"infinite", "any sequence", "rate +Inf is not within",
		func(_ *broken, _ Event, rate *float64, _ *time.Duration) { *rate = math.Inf(1) }},
	{"above the link's rate", "any sequence", "is not within",
		func(b *broken, _ Event, rate *float64, _ *time.Duration) {
			*rate = math.Nextafter(b.link, math.Inf(1))
		}},
	{"below the least rate", "any sequence", "is not within",
		func(b *broken, _ Event, rate *float64, _ *time.Duration) {
			*rate = math.Nextafter(min(b.link, steadyMin), math.Inf(-1))
		}},
	{"negative", "any sequence", "rate -",
		func(_ *broken, _ Event, rate *float64, _ *time.Duration) { *rate = -*rate }},
	{"zero after a timeout", "any sequence", "Timeout:true",
		func(_ *broken, e Event, rate *float64, _ *time.Duration) {
			if e.Timeout {
				*rate = 0
			}
		}},
	{"zero after a mark", "any sequence", "CE:true",
		func(_ *broken, e Event, rate *float64, _ *time.Duration) {
			if e.CE {
				*rate = 0
			}
		}},
	{"time jumps back", "any sequence", "rate 0 is not within",
		func(b *broken, e Event, rate *float64, _ *time.Duration) {
			if e.Now < b.before {
				*rate = 0
			}
		}},
	{"negative bypass limit", "any sequence", "bypass limit -",
		func(_ *broken, e Event, _ *float64, bypass *time.Duration) {
			if !e.Timeout {
				*bypass = e.Base + us
			}
		}},
	{"panics", "any sequence", "panic: runtime error: integer divide by zero",
		func(_ *broken, e Event, _ *float64, bypass *time.Duration) {
			if !e.Timeout {
				*bypass = time.Millisecond / e.RTT & math.MaxInt64
			}
		}},
	{"sessions share state", "sessions apart", "beside another session",
		func(b *broken, _ Event, _ *float64, bypass *time.Duration) {
			if common != b.link { // another one was here
				common, *bypass = b.link, 1
			}
		}},
	{"looks at more than its arguments", "sessions apart", "beside another session",
		func(b *broken, _ Event, _ *float64, bypass *time.Duration) { calls++; *bypass = calls }},
	{"allocates", "allocations", "1 allocations",
		func(_ *broken, e Event, _ *float64, _ *time.Duration) {
			if e.RTT == 40*us && !e.CE {
				garbage = &Event{}
			}
		}},
	{"allocates at marks", "allocations", "5 allocations",
		func(_ *broken, e Event, _ *float64, _ *time.Duration) {
			if e.CE {
				garbage = &Event{}
			}
		}},
	{"allocates at timeouts", "allocations", "1 allocations",
		func(_ *broken, e Event, _ *float64, _ *time.Duration) {
			if e.Timeout {
				garbage = &Event{}
			}
		}},
}

func TestMutants(t *testing.T) {
	// They are meant to fail: no time and no files for the causes.
	for name, value := range map[string]string{"rapid.nofailfile": "true",
		"rapid.shrinktime": "50ms"} {
		f := flag.Lookup(name)
		before := f.Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { flag.Set(name, before) })
	}
	noticed := map[string]bool{}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			for _, c := range cases {
				if c.name != m.by {
					continue
				}
				noticed[m.by] = true
				got := record(t, func(tb testing.TB) {
					c.run(tb, Subject{New: spoilt(m.spoil), MinRate: steadyMin})
				})
				if !got.failed || !strings.Contains(got.text.String(), m.says) {
					t.Fatalf("case %q does not say %q but:\n%s", m.by, m.says, &got.text)
				}
				return
			}
			t.Fatalf("no case %q", m.by)
		})
	}
	for _, c := range cases {
		if !noticed[c.name] {
			t.Errorf("no mutant is caught by case %q", c.name)
		}
	}
}

// TestEach: what an algorithm says about itself counts, with the step as it was.
func TestEach(t *testing.T) {
	q := Sequence{Link: 1e9,
		Events: []Event{{Now: 5, RTT: 1}, {Timeout: true, Now: 9}, {Timeout: true}}}
	var steps []Step
	s := Subject{New: newSteady, MinRate: steadyMin,
		Each: func(_ cc.Controller, s Step) error { steps = append(steps, s); return nil }}
	if err := s.play(q); err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{q.Events[0], 1e9, 1e9, 20 * us}, {q.Events[1], 1e9, 5e8, 0}, {q.Events[2], 5e8, 2.5e8, 0},
	}
	if fmt.Sprint(steps) != fmt.Sprint(want) {
		t.Errorf("got %+v\nwant %+v", steps, want)
	}
	sorry := errors.New("sorry")
	s.Each = func(_ cc.Controller, s Step) error {
		if s.Now == 9 {
			return sorry
		}
		return nil
	}
	if err := s.play(q); !errors.Is(err, sorry) || !strings.Contains(err.Error(), "event 1,") {
		t.Errorf("got %v", err)
	}
}

// rated tells a rate of its own.
type rated struct {
	cc.Controller
	rate float64
}

func (r rated) Rate() float64 { return r.rate }

// TestRate: a method Rate must tell what the controller returns, from the start.
func TestRate(t *testing.T) {
	q := Sequence{Link: 1e9, Events: []Event{{Timeout: true}}}
	for _, tt := range []struct {
		rate float64
		says string // "" if all is well
	}{{1e9, ""}, {5e8, "Rate() is 5e+08, want 1e+09"}} {
		s := Subject{New: func(float64) cc.Controller { return rated{&fixed{rate: 1e9}, tt.rate} }}
		if err := s.play(q); (err == nil) != (tt.says == "") || err != nil && err.Error() != tt.says {
			t.Errorf("Rate() %v: %v, want %q", tt.rate, err, tt.says)
		}
	}
	s := Subject{New: func(link float64) cc.Controller { return rated{newSteady(link), link} }}
	if err := s.play(q); err == nil || !strings.Contains(err.Error(), "event 0") {
		t.Errorf("a Rate() that stays passes: %v", err)
	}
}

func TestIncomplete(t *testing.T) {
	for _, a := range []cc.Algorithm{{New: newSteady}, {Name: "x"},
		{Name: "x", New: func(float64) cc.Controller { return nil }}} {
		if complete(a) == nil {
			t.Errorf("%+v passes", a)
		}
	}
}

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB // the real test, for what is not overridden
	text       strings.Builder
	failed     bool
}

// record runs f, which FailNow ends, as a test of its own and returns how that ended.
func record(tb testing.TB, f func(testing.TB)) *recorder {
	r := &recorder{TB: tb}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func (r *recorder) Failed() bool              { return r.failed }
func (r *recorder) Fail()                     { r.failed = true }
func (r *recorder) FailNow()                  { r.Fail(); runtime.Goexit() }
func (r *recorder) Log(args ...any)           { fmt.Fprintln(&r.text, args...) }
func (r *recorder) Logf(f string, a ...any)   { fmt.Fprintf(&r.text, f+"\n", a...) }
func (r *recorder) Error(args ...any)         { r.Log(args...); r.Fail() }
func (r *recorder) Errorf(f string, a ...any) { r.Logf(f, a...); r.Fail() }
func (r *recorder) Fatal(args ...any)         { r.Log(args...); r.FailNow() }
func (r *recorder) Fatalf(f string, a ...any) { r.Logf(f, a...); r.FailNow() }
