package timely

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

// ack is one call of OnAck, times in us, and the rate it returns, bytes per second.
type ack struct {
	now, rtt, base float64
	want           float64
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
	return cc.Algorithm{Name: "timely", Bypass: cfg.Bypass(0),
		New: func(link float64) cc.Controller { return New(cfg, link) }}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-12*math.Abs(want) }

// classic are round numbers to compute with.
var classic = Config{TLow: 50 * time.Microsecond, RTTRef: 50 * time.Microsecond,
	BaseRTT: 25 * time.Microsecond, Beta: 0.1, AddRate: 2e6}

// TestByHand: sequences computed by hand. Each session begins with a timeout, at half
// of a link of 1e9 bytes per second.
func TestByHand(t *testing.T) {
	paper := Config{Variant: Paper} // unit 2 us, AddRate 5e6, Beta 0.26, Alpha 0.46
	tests := []struct {
		name string
		cfg  Config
		acks []ack
	}{
		{"paper: additive increase", paper, []ack{
			{0, 10, 0, 500e6},       // the first sample changes nothing
			{2, 10, 0, 505e6},       // 2 us are a whole step
			{3, 10, 0, 507.5e6},     // 1 us is half of one
			{3, 10, 0, 507.5e6},     // time stands still
			{1e6, 10, 0, 512.5e6},   // a second is no more than one
			{5, 10, 0, 512.5e6},     // time jumps back
			{7, 10, 0, 517.5e6},     // and goes on from there
			{9, 49.999, 0, 522.5e6}, // the gradient does not count below TLow
		}},
		{"paper: hyperactive increase and gradient", paper, []ack{
			{0, 60, 0, 500e6},
			{2, 60, 0, 505e6},
			{4, 60, 0, 510e6},
			{6, 60, 0, 515e6},
			{8, 60, 0, 520e6},
			{10, 60, 0, 525e6}, // the fifth in a row
			{12, 60, 0, 550e6}, // five steps at once
			// average 0.46 * 1000 ns = 460, gradient 460/2000 = 0.23,
			// 550e6 * (1 - 0.26*0.23) = 550e6 * 0.9402
			{14, 61, 0, 517.11e6},
			// average 0.54 * 460 = 248.4, gradient 0.1242, factor 1 - 0.032292
			{16, 61, 0, 517.11e6 * 0.967708},
			// average 0.54*248.4 - 0.46*1000 = -325.864: falls, counted from 1 again
			{18, 60, 0, 517.11e6*0.967708 + 5e6},
		}},
		{"paper: at most halves", paper, []ack{
			{0, 60, 0, 500e6},
			// average 46000 ns, gradient 23, 0.26*23 = 5.98
			{2, 160, 0, 250e6},
		}},
		{"paper: above THigh", paper, []ack{
			{0, 2000, 0, 500e6},
			{2, 2000, 0, 435e6},     // 0.26 * (1 - 1000/2000) = 0.13
			{3, 2000, 0, 406.725e6}, // half a step: 0.065
		}},
		{"paper: a base above BaseRTT is the unit", paper, []ack{
			{0, 340, 325, 500e6},
			{162.5, 340, 325, 502.5e6}, // half a step; 340 us is below 50 + 325
		}},
		{"paper: at the thresholds", paper, []ack{
			{0, 50, 0, 500e6},
			{2, 50, 0, 505e6}, {4, 50, 0, 510e6}, {6, 50, 0, 515e6}, {8, 50, 0, 520e6}, {10, 50, 0, 525e6},
			{12, 50, 0, 550e6},   // TLow belongs to the middle: five steps at once
			{14, 1000, 0, 275e6}, // gradient 0.46*950000/2000 = 218.5: halves
			// average 0.54*437000 - 0 = 235980, gradient 118: halves; above THigh it
			// would be 1 - 0.26*0
			{16, 1000, 0, 137.5e6},
		}},
		{"patched: at TLow", Config{}, []ack{
			{0, 50, 10, 500e6},
			{50, 50, 10, 501e6}, // w = 0.5, error 0; + 1e6
		}},
		{"patched: regions of the weight", Config{}, []ack{ // AddRate 2e6, Beta 0.1
			{0, 75, 10, 500e6},
			// gradient 0: w = 0.5, error 0.5; 1 - 0.1*0.5*0.5 = 0.975, + 2e6*0.5
			{75, 75, 10, 488.5e6},
			// average 0.46*25000 = 11500 ns, gradient 1.15: w = 1, error 1; 1 - 0.1
			{175, 100, 10, 439.65e6},
			// average 0.54*11500 - 0.46*40000 = -12190: w = 0; + 2e6
			{300, 60, 10, 441.65e6},
			// average 0.54*-12190 + 0.46*15000 = 317.4, gradient 0.03174: w = 0.56348,
			// error 0.5; 1 - 0.028174, + 2e6*0.43652
			{400, 75, 10, 441.65e6*0.971826 + 873040},
		}},
		{"patched: a step is a round trip", Config{}, []ack{
			{0, 75, 10, 500e6},
			{7.5, 75, 10, 498.85e6}, // a tenth: 500e6 * (1 - 0.0025) + 1e5
			{7.5, 75, 10, 498.85e6},
			{3, 75, 10, 498.85e6},
			{103, 20, 10, 500.85e6}, // below TLow
			{113, 20, 10, 501.85e6}, // half a round trip
			{118, 5, 10, 502.85e6},  // base is the least unit: half of 10 us
		}},
		{"patched: four times RTTRef are the longest step", Config{}, []ack{
			{0, 400, 10, 500e6},
			// w = 0.5, error 7, 0.35; 100 us of 200 are half a step:
			// 500e6 * (1 - 0.175) + 0.5e6
			{100, 400, 10, 413e6},
		}},
		{"patched: at most halves", Config{}, []ack{
			{0, 800, 10, 500e6},
			{200, 800, 10, 251e6}, // w = 0.5, error 15, 0.75; + 1e6
		}},
		{"patched: above THigh", Config{}, []ack{
			{0, 1100, 10, 500e6},
			{20, 1100, 10, 475e6}, // w = 1, error 21; a tenth of a half
		}},
		{"patched: below RTTRef", Config{RTTRef: 100 * time.Microsecond}, []ack{
			{0, 75, 10, 500e6},
			{75, 75, 10, 507.25e6}, // error -0.25; 1 + 0.1*0.5*0.25, + 1e6
		}},
		// gradient 0: w = 1/2, so that half of the step is added; above THigh it is none
		{"patched: at THigh", Config{}, []ack{
			{0, 1000, 0, 500e6},
			{200, 1000, 0, 251e6}, // a whole step: halves, + 2e6/2
		}},
		{"paper: BaseRTT itself is no unit", paper, []ack{
			{0, 30, 25, 500e6},
			{2, 30, 25, 505e6}, // a whole step of 2 us
		}},
		{"patched: base shift", Config{}, []ack{ // by 325 us: TLow and RTTRef are 375 us
			{0, 340, 325, 500e6},
			{340, 340, 325, 502e6},
			// diff 0.46*185000 = 85100 ns, gradient 0.26: w = 1, error 150/375
			{865, 525, 325, 502e6 * 0.96},
			{935, 70, 40, 502e6*0.96 + 2e6}, // now TLow is 90
		}},
		{"patched: not measured", Config{}, []ack{
			{0, 0, 0, 500e6},
			{10, -5, 0, 500e6},
			{20, 10, 0, 500e6}, // the first sample
			{25, 0, 0, 500e6},
			{30, 10, 0, 502e6}, // 10 us after it
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.cfg.Variant == Patched {
				ref := tt.cfg.RTTRef
				if tt.cfg = classic; ref != 0 {
					tt.cfg.RTTRef = ref
				}
			} else {
				tt.cfg.BaseRTT = classic.BaseRTT
			}
			c := New(filled(t, tt.cfg), 1e9)
			if got := c.OnTimeout(0); got != 500e6 {
				t.Fatalf("rate after a timeout: %v", got)
			}
			for i, a := range tt.acks {
				now := cc.Time(micros(a.now))
				got, _ := c.OnAck(now, micros(a.rtt), micros(a.base), 1000, i%2 == 0)
				if !near(got, a.want) || c.Rate() != got {
					t.Fatalf("answer %d: rate %.3f, Rate() %.3f, want %.3f", i, got, c.Rate(), a.want)
				}
			}
		})
	}
}

// micros returns the duration of so many us.
func micros(n float64) time.Duration { return time.Duration(n * float64(us)) }

// TestBounds: the rate stays between MinRate and the link's rate, which wins.
func TestBounds(t *testing.T) {
	for _, v := range []Variant{Patched, Paper} {
		cfg := filled(t, Config{Variant: v, MinRate: 1e6})
		for _, tt := range []struct{ link, low, high float64 }{
			{1e9, 1e6, 1e9}, {1.5e6, 1e6, 1.5e6}, {5e5, 5e5, 5e5}, // the last is slower than MinRate
			{0, 1e6, 1e6}, {-1, 1e6, 1e6}, {math.NaN(), 1e6, 1e6}, // no rates
			{math.Inf(1), 1e6, math.MaxFloat64},
		} {
			c := New(cfg, tt.link)
			if c.Rate() != tt.high {
				t.Errorf("%v, link %v: begins at %v", v, tt.link, c.Rate())
			}
			for i := range 2000 {
				c.OnAck(cc.Time(time.Duration(i)*ms), time.Duration(i)*10*us, 0, 1000, false)
				c.OnTimeout(0)
			}
			if c.Rate() != tt.low {
				t.Errorf("%v, link %v: least rate %v, want %v", v, tt.link, c.Rate(), tt.low)
			}
			for i := range 2000 {
				c.OnAck(cc.Time(time.Duration(i)*ms), 5*us, 0, 1000, true)
			}
			// Time jumps back at the first sample, so that it adds nothing.
			if want := min(tt.high, 1e6+1999*cfg.AddRate); c.Rate() != want {
				t.Errorf("%v, link %v: rises to %v, want %v", v, tt.link, c.Rate(), want)
			}
		}
	}
}

func TestBypass(t *testing.T) {
	cfg := filled(t, classic)
	for _, tt := range []struct{ base, want time.Duration }{
		{0, 50 * us}, {-1, 50 * us}, {25 * us, 50 * us}, {25*us + 1, 75*us + 1},
		{325 * us, 375 * us}, {30 * ms, 30*ms + 50*us},
		{math.MaxInt64, math.MaxInt64}, {math.MinInt64, 50 * us},
	} {
		if got := cfg.Bypass(tt.base); got != tt.want {
			t.Errorf("Bypass(%v) = %v, want %v", tt.base, got, tt.want)
		}
		_, got := New(cfg, 1e9).OnAck(0, 10, tt.base, 1000, false)
		if got != tt.want {
			t.Errorf("OnAck with base %v returns the limit %v, want %v", tt.base, got, tt.want)
		}
	}
	_, got := New(cfg, 1e9).OnAck(0, 0, 325*us, 1000, false)
	if got != 375*us {
		t.Errorf("OnAck without a sample returns the limit %v", got)
	}
}

// TestContract also proves that nothing allocates.
func TestContract(t *testing.T) {
	for _, v := range []Variant{Patched, Paper} {
		t.Run(v.String(), func(t *testing.T) {
			cfg := filled(t, Config{Variant: v})
			cctest.Run(t, algorithm(cfg), cfg.MinRate)
		})
	}
}

func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Control{}); size > 80 {
		t.Errorf("a session takes %d bytes", size)
	}
}

func BenchmarkOnAck(b *testing.B) {
	for _, v := range []Variant{Patched, Paper} {
		b.Run(v.String(), func(b *testing.B) {
			c := New(filled(b, Config{Variant: v}), 3e9)
			var now cc.Time
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(us)
				c.OnAck(now, 40*us+time.Duration(now)&0x7fff, 6*us, 1000, false)
			}
		})
	}
}
