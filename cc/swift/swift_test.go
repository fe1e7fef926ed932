package swift

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
	return cc.Algorithm{Name: "swift", Bypass: cfg.Bypass(0),
		New: func(link float64) cc.Controller { return New(cfg, link) }}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-12*math.Abs(want) }

// ack is one call of OnAck, times in us, and what it leaves: the window in packets and the
// rate in bytes per second.
type ack struct {
	now, rtt, base float64
	bytes          int
	window, rate   float64
}

// round are numbers to compute with: a packet in Target is 1e7 bytes per second, and flow
// scaling adds 90 us at a window of 1, 36 us at 4 and nothing at 100 packets.
var round = Config{Target: 100 * us, BaseRTT: 200 * us, FlowRange: 90 * us, FlowMin: 1,
	FlowMax: 100, AddPackets: 1, Beta: 0.8, MaxDecrease: 0.5, Packet: 1000, MinRate: 1e3}

// TestByHand: sequences computed by hand, on a link of 1e9 bytes per second: 100 packets
// in Target.
func TestByHand(t *testing.T) {
	// The decrease on a long path, whose target is longer by 2 packets at the session's own rate.
	const longCut = 203.140625 * (1 - 0.8*(400-2e9/507.8515625e6)/800)
	tests := []struct {
		name     string
		timeouts int // before the first answer
		acks     []ack
	}{
		{"increase", 1, []ack{
			{0, 50, 0, 50_000, 51, 510e6},                // a window was answered: one packet
			{1, 99, 0, 51_000, 52, 520e6},                // and another one
			{2, 99, 0, 13_000, 52.25, 522.5e6},           // a quarter of one
			{3, 99, 0, 1_000_000, 53.25, 532.5e6},        // no more than one for an answer
			{3, 99, 0, 0, 53.25, 532.5e6},                // nothing was answered
			{3, 99, 0, -1000, 53.25, 532.5e6},            // or less
			{4, 0, 0, 53_250, 53.25, 532.5e6},            // not measured
			{4, -5, 0, 53_250, 53.25, 532.5e6},           //
			{5, 100, 0, 53_250, 54.25, 542.5e6},          // flow scaling adds some us
			{6, 100.5, 0, 54_250, 55.25, 5525e8 / 1005.}, // the rate follows the round trip
		}},
		{"decrease, once in a round trip", 0, []ack{
			{1000, 125, 0, 1000, 84, 840e6 / 1.25}, // 1 - 0.8*25/125
			{1124, 125, 0, 1000, 84, 840e6 / 1.25},
			{2000, 1000, 0, 1000, 42, 42e6}, // at most halves; the rate is a tenth of the window's
			{2999.999, 1000, 0, 1000, 42, 42e6},
			{3000, 1000, 0, 1000, 21, 21e6},
			{3001, 1500, 0, 1000, 21, 14e6},
			{3002, 20, 0, 21_000, 22, 220e6}, // up at once
		}},
		{"time jumps back", 0, []ack{
			{1000, 1000, 0, 1000, 50, 50e6},
			{500, 1000, 0, 1000, 50, 50e6}, // the wait begins anew
			{1499, 1000, 0, 1000, 50, 50e6},
			{1500, 1000, 0, 1000, 25, 25e6},
		}},
		{"below one packet", 7, []ack{ // 100/128 of a packet
			{50_000, 150, 0, 1000, 0.78125 + 1, 1.78125e7 / 1.5},
			{50_001, 10_000, 0, 1000, 0.890625, 0.890625e5},
			{60_000, 10_000, 0, 1000, 0.890625, 0.890625e5},
			{60_001, 10_000, 0, 1000, 0.4453125, 0.4453125e5},
			{70_001, 190, 0, 1000, 0.4453125, 0.4453125e7 / 1.9}, // the target: all of FlowRange
			{70_002, 189, 0, 500, 0.9453125, 0.9453125e7 / 1.89},
		}},
		{"a long path", 1, []ack{
			// The window follows: Target is 400 us. It grows by a part of 64.
			{0, 399, 300, 200_000, 203.125, 507.8125e6},
			// 2 packets of its own are no congestion.
			{1000, 403, 300, 1000, 203.140625, 507.8515625e6 * 400 / 403},
			{2000, 800, 300, 1000, longCut, longCut * 2.5e6 / 2},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := round
			if tt.timeouts > 4 {
				cfg.ResetAfter = 100
			}
			c := New(filled(t, cfg), 1e9)
			for i := range tt.timeouts {
				if want := 1e9 / float64(uint(2)<<i); c.OnTimeout(-1000) != want {
					t.Fatalf("rate after a timeout: %v", c.Rate())
				}
			}
			for i, a := range tt.acks {
				now := cc.Time(a.now * float64(us))
				got, bypass := c.OnAck(now, micros(a.rtt), micros(a.base), a.bytes, i%2 == 0)
				window := c.full * bypass.Seconds() / 1000
				if !near(got, a.rate) || c.Rate() != got || !near(window, a.window) {
					t.Fatalf("answer %d: window %v, rate %.3f, Rate() %.3f, want %v and %.3f", i, window, got,
						c.Rate(), a.window, a.rate)
				}
			}
		})
	}
}

// micros returns the duration of so many us.
func micros(n float64) time.Duration { return time.Duration(n * float64(us)) }

// TestFlowScaling: the target rises as the window's square root falls, between two ends.
func TestFlowScaling(t *testing.T) {
	cfg := filled(t, round)
	for _, tt := range []struct{ window, want float64 }{
		{0, 90e3}, {0.5, 90e3}, {1, 90e3}, {4, 40e3}, {25, 10e3}, {100, 0}, {1000, 0}, {math.Inf(1), 0},
	} {
		if got := cfg.flows(tt.window); math.Abs(got-tt.want) > 1e-9*tt.want {
			t.Errorf("window %v: %v ns, want %v", tt.window, got, tt.want)
		}
	}
}

// TestTimeouts: each takes half, the fifth in a row all; an answer begins a new row.
func TestTimeouts(t *testing.T) {
	c := New(filled(t, Config{MinRate: 1e3}), 1.6e9)
	c.OnAck(0, 50*us, 0, 1000, false) // above the target of 25 us: flow scaling adds a little
	before := c.Rate()
	for i := range 4 {
		if got, want := c.OnTimeout(cc.Time(i)), before/float64(uint(2)<<i); !near(got, want) {
			t.Fatalf("timeout %d: %v, want %v", i, got, want)
		}
	}
	c.OnAck(5, 0, 0, 1000, false)
	for i := range 4 {
		if got, want := c.OnTimeout(cc.Time(i)), before/float64(uint(32)<<i); !near(got, want) {
			t.Fatalf("timeout %d after an answer: %v, want %v", i, got, want)
		}
	}
	for range 3 {
		if got := c.OnTimeout(9); got != 1e3 {
			t.Fatalf("the fifth in a row and later ones: %v", got)
		}
	}
	if got, _ := c.OnAck(cc.Time(ms), 10*us, 0, 1000, false); got < 0.1*1000/25e-6 {
		t.Errorf("%v after the next answer", got) // AddPackets are 0.1 of a packet
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
			c.OnAck(cc.Time(i*10*ms), 10*ms, 0, 1000, false)
		}
		if c.Rate() != tt.low {
			t.Errorf("link %v: least rate %v, want %v", tt.link, c.Rate(), tt.low)
		}
		for i := range time.Duration(2000) {
			c.OnAck(cc.Time(i*ms), 5*us, 0, math.MaxInt, true)
		}
		if tt.high <= 1e9 && c.Rate() != tt.high {
			t.Errorf("link %v: rises to %v, want %v", tt.link, c.Rate(), tt.high)
		}
	}
}

func TestBypass(t *testing.T) {
	cfg := filled(t, round)
	for _, tt := range []struct{ base, want time.Duration }{
		{0, 100 * us}, {-1, 100 * us}, {200 * us, 100 * us}, {200*us + 1, 300*us + 1},
		{30 * ms, 30*ms + 100*us}, {math.MaxInt64 - 100*us, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64}, {math.MinInt64, 100 * us},
	} {
		if got := cfg.Bypass(tt.base); got != tt.want {
			t.Errorf("Bypass(%v) = %v, want %v", tt.base, got, tt.want)
		}
		for _, rtt := range []time.Duration{0, 10} {
			if _, got := New(cfg, 1e9).OnAck(0, rtt, tt.base, 1000, false); got != tt.want {
				t.Errorf("OnAck with base %v returns the limit %v, want %v", tt.base, got, tt.want)
			}
		}
	}
	// At link rate, what need not be told changes nothing.
	c := New(cfg, 1e9)
	if rate, bypass := c.OnAck(0, 100*us, 0, 1, false); rate != 1e9 || bypass != 100*us {
		t.Errorf("rate %v, bypass %v", rate, bypass)
	}
}

// TestContract also proves that nothing allocates.
func TestContract(t *testing.T) {
	cfg := filled(t, Config{})
	cctest.Run(t, algorithm(cfg), cfg.MinRate)
}

func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Control{}); size > 80 {
		t.Errorf("a session takes %d bytes", size)
	}
}

func BenchmarkOnAck(b *testing.B) {
	c := New(filled(b, Config{}), 3e9)
	var now cc.Time
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(us)
		c.OnAck(now, 20*us+time.Duration(now)&0x3fff, 6*us, 1000, false)
	}
}
