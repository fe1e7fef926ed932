package cctest

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
)

const us = time.Microsecond

// small is a link where a packet takes 1 us and the idle round trip is 2 us.
func small() *Bottleneck {
	return &Bottleneck{Link: 1e9, PacketSize: 1000, BaseRTT: 2 * us, Credits: 8,
		Warm: cc.Time(100 * us), End: cc.Time(1100 * us)}
}

// queued runs a session of 8 credits at link rate after the queue of another one has
// built up: round trips are 16 us, of which a packet waits 13.
func queued(b *Bottleneck, f *fixed) {
	b.Add(f.algorithm(), 2, b.Link, 0, 0)
	b.Run()
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-12*want }

func TestIdle(t *testing.T) {
	b, f := small(), &fixed{rate: 0.25e9, bypass: never}
	b.Add(f.algorithm(), 1, f.rate, 0, 0)
	b.Run()
	if r := b.Rates(); len(r) != 1 || !near(r[0], 0.25e9) || !near(b.Utilisation(), 0.25) ||
		b.Delay(100) != 0 {
		t.Errorf("rates %v, utilisation %v, delay %v", r, b.Utilisation(), b.Delay(100))
	}
	// Below link rate every answer is told, the first at 3 us, one each 4 us.
	want := Event{Now: cc.Time(3 * us), RTT: 3 * us, Base: 2 * us, Bytes: 1000}
	if len(f.told) != 275 || f.told[0] != want {
		t.Errorf("told %d answers, the first is %+v, want 275 and %+v", len(f.told), f.told[0], want)
	}
}

func TestQueue(t *testing.T) {
	b, f := small(), &fixed{rate: 1e9, bypass: 16*us - 1}
	queued(b, f)
	if r := b.Rates(); !near(r[0], 0.5e9) || !near(r[1], 0.5e9) || !near(b.Utilisation(), 1) {
		t.Errorf("rates %v, utilisation %v", r, b.Utilisation())
	}
	if b.Delay(0) != 13*us || b.Delay(50) != 13*us || b.Delay(100) != 13*us {
		t.Errorf("delay %v, %v, %v", b.Delay(0), b.Delay(50), b.Delay(100))
	}
	for _, e := range f.told {
		if e.RTT != 16*us || e.CE {
			t.Fatalf("told %+v, want those of 16 us only, without marks", e)
		}
	}
	b, f = small(), &fixed{rate: 1e9, bypass: 16 * us}
	if queued(b, f); len(f.told) != 0 {
		t.Errorf("told %+v in spite of the bypass limit", f.told[0])
	}
}

func TestJitter(t *testing.T) {
	b, f := small(), &fixed{rate: 1e9, bypass: 16*us - 1}
	b.Jitter = us
	queued(b, f)
	var least, most time.Duration = never, 0
	for _, e := range f.told[100:] {
		least, most = min(least, e.RTT), max(most, e.RTT)
	}
	if least < 16*us || least > 16*us+100 || most > 17*us-1 || most < 17*us-100 {
		t.Errorf("round trips of %v to %v", least, most)
	}
}

// TestMarking: the queue holds 13000 bytes, but for the first few packets.
func TestMarking(t *testing.T) {
	const packets = 1098 // one each us until the last whose answer comes in time
	for _, tt := range []struct {
		red       RED
		low, high float64 // part that is marked
	}{
		{RED{}, 0, 0},
		{RED{KMin: 13_000, KMax: 20_000, PMax: 1}, 0, 0},
		{RED{KMin: 12_999, KMax: 12_999}, 0.97, 1},
		{RED{KMin: 3_000, KMax: 23_000, PMax: 1}, 0.4, 0.6},
		{RED{KMin: 3_000, KMax: 23_000, PMax: 0.2}, 0.05, 0.15},
	} {
		b, f := small(), &fixed{rate: 1e9, bypass: never}
		b.Marking = tt.red
		queued(b, f) // marks only are told
		if got := float64(len(f.told)) / packets; got < tt.low || got > tt.high {
			t.Errorf("%+v marks %.3f", tt.red, got)
		}
		for _, e := range f.told {
			if !e.CE {
				t.Fatalf("told %+v", e)
			}
		}
	}
}

func TestJain(t *testing.T) {
	for _, tt := range []struct {
		rates []float64
		want  float64
	}{{[]float64{3, 3, 3}, 1}, {[]float64{0, 7, 0, 0}, 0.25}, {[]float64{1, 3}, 0.8}} {
		if got := Jain(tt.rates); !near(got, tt.want) {
			t.Errorf("Jain(%v) = %v, want %v", tt.rates, got, tt.want)
		}
	}
}

// TestClosedLoop: a good controller reaches what broken ones do not.
func TestClosedLoop(t *testing.T) {
	model := func() *Bottleneck {
		b := Testbed()
		b.Warm, b.End = cc.Time(30*time.Millisecond), cc.Time(60*time.Millisecond)
		return b
	}
	at := func(rate float64) cc.Algorithm {
		return cc.Algorithm{Bypass: 20 * us, New: func(link float64) cc.Controller {
			return &steady{link: link, rate: rate}
		}}
	}
	stuck := func(rate float64) cc.Algorithm { return (&fixed{rate: rate, bypass: never}).algorithm() }
	w := Want{Jain: 0.95, Utilisation: 0.95, Delay99: 100 * us}
	Converge(t, model(), at, w)
	Incast(t, model(), at(Testbed().Link), 20, w)

	for _, tt := range []struct {
		name string
		run  func(tb testing.TB)
		says string
	}{
		{"keeps its rate", func(tb testing.TB) { Converge(tb, model(), stuck, w) },
			"two sessions: rates"},
		{"is unfair", func(tb testing.TB) { Converge(tb, model(), stuck, w) }, "Jain's index 0.6"},
		{"overloads", func(tb testing.TB) { Incast(tb, model(), stuck(Testbed().Link), 20, w) },
			"99 % of the packets wait"},
		{"gives all up", func(tb testing.TB) {
			a := stuck(1e6)
			a.Bypass = 0
			Incast(tb, model(), a, 20, w)
		}, "utilisation 0.0"},
		{"NaN", func(tb testing.TB) {
			a := stuck(math.NaN())
			a.Bypass = 0
			Incast(tb, model(), a, 20, w)
		}, "wants a rate of NaN"},
		{"above the link's rate", func(tb testing.TB) {
			a := stuck(1e12)
			a.Bypass = 0
			Incast(tb, model(), a, 20, w)
		}, "wants a rate of 1e+12"},
		{"nobody sends", func(tb testing.TB) { model().Expect(tb, w) }, "Jain's index NaN"},
	} {
		if got := record(t, tt.run); !got.failed || !strings.Contains(got.text.String(), tt.says) {
			t.Errorf("%s: want %q, got:\n%s", tt.name, tt.says, &got.text)
		}
	}
	b := model()
	b.delays = []time.Duration{time.Second}
	if err := b.incast(cc.Algorithm{}, 0); err == nil {
		t.Error("a queue longer than all credits passes")
	}
}
