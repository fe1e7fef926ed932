package dcqcn

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/cctest"
)

var _ cc.Controller = (*Control)(nil)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// ack is one call of OnAck, time in us, and what it leaves: bytes per second, and alpha.
type ack struct {
	now         float64
	bytes       int
	ce          bool
	rate, alpha float64
}

func filled(t testing.TB, c Config) *Config {
	t.Helper()
	c, err := c.Fill()
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// algorithm makes controllers of cfg.
func algorithm(cfg *Config) cc.Algorithm {
	return cc.Algorithm{Name: "dcqcn", Bypass: Bypass,
		New: func(link float64) cc.Controller { return New(cfg, link) }}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-12*math.Abs(want) }

// TestByHand: sequences computed by hand, on a link of 1e9 bytes per second.
func TestByHand(t *testing.T) {
	tests := []struct {
		name     string
		cfg      Config
		timeouts int // before the first answer
		acks     []ack
	}{
		{"cuts and fast recovery", Config{Gain: 0.25, AddRate: 5e6}, 0, []ack{
			{0, 1000, false, 1e9, 1},
			{0, 1000, true, 500e6, 1},        // the first mark halves; alpha = 0.75 + 0.25
			{49.999, 1000, true, 500e6, 1},   // at most once in 50 us
			{50, 1000, true, 250e6, 1},       // target 500e6
			{104.999, 1000, false, 250e6, 1}, // no period has passed
			{105, 1000, false, 375e6, 0.75},  // half way to the target
			{160, 1000, false, 437.5e6, 0.75 * 0.75},
			{215, 1000, false, 468.75e6, 0.421875},
			{270, 1000, false, 484.375e6, 0.31640625},
			// the fifth adds 5e6 to the target: (484.375 + 505)/2
			{325, 1000, false, 494.6875e6, 0.2373046875},
			// 494.6875e6 * (1 - 0.2373046875/2); alpha = 0.75*0.2373046875 + 0.25
			{325, 1000, true, 494.6875e6 * 0.88134765625, 0.427978515625},
			// half way back to 494.6875e6; alpha * 0.75
			{380, 1000, false, 494.6875e6 * (0.88134765625 + 1) / 2, 0.32098388671875},
		}},
		{"several periods at once", Config{Gain: 0.25, AddRate: 5e6}, 0, []ack{
			{0, 1000, true, 500e6, 1},
			{110, 1000, false, 875e6, 0.5625},           // 750, 875
			{275, 1000, false, 984.375e6, 0.2373046875}, // 937.5, 968.75, 984.375
			// 992.1875, 996.09375: within AddRate of the link, which ends it
			{385, 1000, false, 1e9, 1},
			{1000, 1000, true, 500e6, 1},
		}},
		{"byte counter", Config{IncreaseBytes: 1000, Gain: 0.25}, 0, []ack{
			{0, 5000, true, 500e6, 1}, // bytes before the cut do not count
			{1, 999, false, 500e6, 1},
			{2, 1, false, 750e6, 1},
			{3, -7, false, 750e6, 1},
			{4, 2500, false, 937.5e6, 1}, // two periods, 500 bytes are left
			{5, 500, false, 968.75e6, 1},
		}},
		{"hyper increase", Config{Stages: 1, IncreaseBytes: 1000, AddRate: 1e6, HyperRate: 10e6, Gain: 1},
			2, []ack{
				{0, 1000, false, 250.5e6, 1},       // target 251e6
				{55, 1000, false, 252.125e6, 0},    // timer: 252, 251.25; bytes: 253, 252.125
				{110, 0, false, 257.5625e6, 0},     // both above 1: target 263e6
				{110, 1000, false, 265.28125e6, 0}, // 273e6
				{165, 0, false, 279.140625e6, 0},   // two steps: 293e6
			}},
		{"timeout", Config{Gain: 0.5, AddRate: 5e6}, 1, []ack{
			{0, 1000, false, 500e6, 1},
			{220, 1000, false, 500e6, 0.0625}, // nothing to recover to
			{275, 1000, false, 502.5e6, 0.03125},
		}},
		{"time jumps back", Config{Gain: 0.25}, 0, []ack{
			{1000, 1000, true, 500e6, 1},
			{10, 1000, true, 500e6, 1}, // all periods begin anew
			{59.999, 1000, true, 500e6, 1},
			{60, 1000, true, 250e6, 1},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New(filled(t, tt.cfg), 1e9)
			for range tt.timeouts {
				c.OnTimeout(0)
			}
			for i, a := range tt.acks {
				now, rtt := cc.Time(a.now*float64(us)), time.Duration(i)
				got, bypass := c.OnAck(now, rtt, rtt, a.bytes, a.ce)
				if !near(got, a.rate) || c.Rate() != got || !near(c.alpha, a.alpha) || bypass != math.MaxInt64 {
					t.Fatalf("answer %d: rate %.3f, Rate() %.3f, alpha %v, bypass %v; "+
						"want %.3f and %v", i, got, c.Rate(), c.alpha, bypass, a.rate, a.alpha)
				}
			}
		})
	}
}

// TestLateTimers: periods made up for in one call give what one call per period gives.
func TestLateTimers(t *testing.T) {
	cfg := filled(t, Config{AddRate: 1e5, CNPInterval: 1, AlphaInterval: 55 * us, Gain: 1.0 / 256})
	for n := range time.Duration(2000) {
		late, prompt := New(cfg, 1e9), New(cfg, 1e9)
		for _, c := range []*Control{late, prompt} {
			c.OnAck(0, 1, 1, 0, true)
			c.OnAck(1, 1, 1, 0, true) // target 500e6, so that the link is far away
		}
		for i := range n {
			prompt.OnAck(cc.Time(1).Add((i+1)*55*us), 1, 1, 0, false)
		}
		late.OnAck(cc.Time(1).Add(n*55*us), 1, 1, 0, false)
		if math.Abs(late.rate-prompt.rate) > 1e-9*prompt.rate ||
			math.Abs(late.target-prompt.target) > 1e-9*prompt.target ||
			math.Abs(late.alpha-prompt.alpha) > 1e-9*prompt.alpha || late.timerRuns != prompt.timerRuns {
			t.Fatalf("%d periods: late %+v\nprompt %+v", n, *late, *prompt)
		}
	}
}

// TestLongSilence: however long nothing was heard, one call makes up for it, and the
// session is back at link rate.
func TestLongSilence(t *testing.T) {
	cfg := filled(t, Config{CNPInterval: 1, AlphaInterval: 2, IncreaseInterval: 1, IncreaseBytes: 1})
	c := New(cfg, 1e9)
	c.OnAck(math.MinInt64, 1, 1, 1, true)
	if c.Rate() != 500e6 {
		t.Fatalf("rate %v", c.Rate())
	}
	if rate, _ := c.OnAck(math.MaxInt64, 1, 1, math.MaxInt, false); rate != 1e9 {
		t.Errorf("rate %v after all of time", rate)
	}
}

// TestBounds: the rate stays between MinRate and the link's rate, which wins.
func TestBounds(t *testing.T) {
	cfg := filled(t, Config{MinRate: 1e6})
	for _, tt := range []struct{ link, low, high float64 }{
		{1e9, 1e6, 1e9}, {1.5e6, 1e6, 1.5e6}, {5e5, 5e5, 5e5}, // the last is slower than MinRate
		{0, 1e6, 1e6}, {-1, 1e6, 1e6}, {math.NaN(), 1e6, 1e6}, // no rates
		{math.Inf(1), 1e6, math.MaxFloat64},
	} {
		c := New(cfg, tt.link)
		if c.Rate() != tt.high {
			t.Errorf("link %v: begins at %v", tt.link, c.Rate())
		}
		for i := range time.Duration(2000) {
			c.OnAck(cc.Time(i*50*us), 1, 1, 1000, true)
		}
		if c.Rate() != tt.low {
			t.Errorf("link %v: least rate after marks %v, want %v", tt.link, c.Rate(), tt.low)
		}
		for range 2000 {
			c.OnTimeout(0)
		}
		if c.Rate() != tt.low {
			t.Errorf("link %v: least rate after timeouts %v, want %v", tt.link, c.Rate(), tt.low)
		}
		if c.OnAck(cc.Time(time.Hour), 1, 1, 1000, false); tt.high <= 1e9 && c.Rate() != tt.high {
			t.Errorf("link %v: %v after an hour", tt.link, c.Rate())
		}
	}
}

// TestContract also proves that nothing allocates.
func TestContract(t *testing.T) {
	cfg := filled(t, Config{})
	cctest.Run(t, algorithm(cfg), cfg.MinRate)
}

func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Control{}); size > 96 {
		t.Errorf("a session takes %d bytes", size)
	}
}

func BenchmarkOnAck(b *testing.B) {
	c := New(filled(b, Config{}), 3e9)
	var now cc.Time
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(us)
		c.OnAck(now, 40*us, 6*us, 1000, now&0x7f00 == 0)
	}
}
