package swift

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/cctest"
	"pgregory.net/rapid"
)

// anyConfig draws a config that Fill accepts.
func anyConfig() *rapid.Generator[*Config] {
	return rapid.Custom(func(t *rapid.T) *Config {
		part := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(math.SmallestNonzeroFloat64, 1))
		number := rapid.OneOf(rapid.Just(0.0),
			rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64))
		span := rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Map(rapid.Int64Range(1, math.MaxInt64),
			func(i int64) time.Duration { return time.Duration(i) }))
		c := Config{
			Target: span.Draw(t, "target"), BaseRTT: span.Draw(t, "baseRTT"),
			FlowRange:  span.Draw(t, "flowRange"),
			FlowMax:    rapid.Float64Range(1e-300, math.MaxFloat64).Draw(t, "flowMax"),
			AddPackets: number.Draw(t, "addPackets"), MinRate: number.Draw(t, "minRate"),
			Beta: part.Draw(t, "beta"), MaxDecrease: part.Draw(t, "maxDecrease"),
			Packet:     rapid.IntRange(0, maxPacket).Draw(t, "packet"),
			ResetAfter: rapid.IntRange(0, maxResetAfter).Draw(t, "resetAfter"),
		}
		c.FlowMin = rapid.Float64Range(math.SmallestNonzeroFloat64, c.FlowMax/2).Draw(t, "flowMin")
		c, err := c.Fill()
		if err != nil {
			t.Fatal(err)
		}
		return &c
	})
}

// checker returns what looks at one controller after each step: nothing but a round trip or a
// timeout moves the rate, no answer takes more than MaxDecrease of the window, and no
// two decreases are less than a round trip apart.
func checker() func(cc.Controller, cctest.Step) error {
	var last *Control
	var full float64
	var at cc.Time
	var cut bool
	return func(ctl cc.Controller, s cctest.Step) error {
		c := ctl.(*Control)
		if c != last {
			last, full, cut = c, c.link, false
		}
		before := full
		full = c.full
		low := before * (1 - c.cfg.MaxDecrease) * (1 - 1e-9)
		switch {
		case s.Timeout:
			cut, at = true, s.Now
			if s.Rate > s.Before {
				return fmt.Errorf("a timeout raises the rate from %v to %v", s.Before, s.Rate)
			}
			return nil
		case s.RTT <= 0 && s.Rate != s.Before:
			return fmt.Errorf("an answer without a round trip moves the rate from %v to %v", s.Before,
				s.Rate)
		case full < low:
			return fmt.Errorf("one answer takes the window from %v to %v", before, full)
		case full < before:
			if cut && at <= s.Now && uint64(s.Now)-uint64(at) < uint64(s.RTT) {
				return fmt.Errorf("decreases at %d and %d, the round trip is %v", at, s.Now, s.RTT)
			}
			cut, at = true, s.Now
		}
		if s.Now < at {
			at = s.Now
		}
		return nil
	}
}

// TestAnySequence: whatever is told, the contract is kept, and what checker says.
func TestAnySequence(t *testing.T) {
	plain := rapid.Just(filled(t, Config{}))
	rapid.Check(t, func(t *rapid.T) {
		cfg := rapid.OneOf(plain, anyConfig()).Draw(t, "config")
		cctest.AnySequence(t, cctest.Subject{New: algorithm(cfg).New, MinRate: cfg.MinRate,
			Each: checker()})
	})
}

// TestAnyConfig: Fill accepts a config or names a field, and what it accepts it
// accepts again, unchanged.
func TestAnyConfig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := cctest.AnySpan()
		c, err := Config{
			Target: span.Draw(t, "target"), BaseRTT: span.Draw(t, "baseRTT"),
			FlowRange: span.Draw(t, "flowRange"),
			FlowMin:   rapid.Float64().Draw(t, "flowMin"), FlowMax: rapid.Float64().Draw(t, "flowMax"),
			AddPackets: rapid.Float64().Draw(t, "addPackets"), Beta: rapid.Float64().Draw(t, "beta"),
			MaxDecrease: rapid.Float64().Draw(t, "maxDecrease"),
			Packet:      rapid.Int().Draw(t, "packet"), MinRate: rapid.Float64().Draw(t, "minRate"),
			ResetAfter: rapid.Int().Draw(t, "resetAfter"),
		}.Fill()
		if err != nil {
			if bad, ok := err.(*ConfigError); !ok || bad.Field == "" || bad.Reason == "" {
				t.Fatalf("error %#v", err)
			}
			return
		}
		if again, err := c.Fill(); err != nil || again != c {
			t.Fatalf("%+v, filled again: %+v, %v", c, again, err)
		}
	})
}

// FuzzControl: events read from bytes keep the contract and what checker says.
func FuzzControl(f *testing.F) {
	f.Add(1e9, []byte{})
	f.Add(1e3, binary.LittleEndian.AppendUint64(nil, 1<<63))
	f.Add(math.Inf(1), make([]byte, 96))
	cfg, err := Config{}.Fill()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, link float64, in []byte) {
		c, each := New(&cfg, link), checker()
		high := c.Rate()
		for ; len(in) >= 32; in = in[32:] {
			word := func(i int) int64 { return int64(binary.LittleEndian.Uint64(in[8*i:])) }
			s := cctest.Step{Before: c.Rate(), Event: cctest.Event{Now: cc.Time(word(0)),
				RTT: time.Duration(word(1)), Base: time.Duration(word(2)), Bytes: int(word(3)),
				Timeout: word(3)&15 == 15}}
			if s.Timeout {
				s.Rate = c.OnTimeout(s.Now)
			} else {
				s.Rate, s.Bypass = c.OnAck(s.Now, s.RTT, s.Base, s.Bytes, false)
			}
			if !(s.Rate >= min(high, cfg.MinRate) && s.Rate <= high) || s.Bypass < 0 ||
				c.Rate() != s.Rate {
				t.Fatalf("link %v: %+v", link, s)
			}
			if err := each(c, s); err != nil {
				t.Fatalf("%+v: %v", s, err)
			}
		}
	})
}
