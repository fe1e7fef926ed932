package timely

import (
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
		rate := rapid.OneOf(rapid.Just(0.0),
			rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64))
		span := rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Map(rapid.Int64Range(1, math.MaxInt64),
			func(i int64) time.Duration { return time.Duration(i) }))
		c := Config{
			Variant: rapid.SampledFrom([]Variant{Patched, Paper}).Draw(t, "variant"),
			MinRTT:  span.Draw(t, "minRTT"),
			BaseRTT: span.Draw(t, "baseRTT"),
			Alpha:   part.Draw(t, "alpha"), Beta: part.Draw(t, "beta"),
			MaxDecrease: part.Draw(t, "maxDecrease"),
			AddRate:     rate.Draw(t, "addRate"), MinRate: rate.Draw(t, "minRate"),
			HAIAfter: rapid.IntRange(0, maxHAIAfter).Draw(t, "haiAfter"),
		}
		c.THigh = time.Duration(rapid.Int64Range(2, math.MaxInt64).Draw(t, "tHigh"))
		c.TLow = time.Duration(rapid.Int64Range(1, int64(c.THigh)-1).Draw(t, "tLow"))
		c.RTTRef = time.Duration(rapid.Int64Range(0, int64(c.THigh)-1).Draw(t, "rttRef"))
		c, err := c.Fill()
		if err != nil {
			t.Fatal(err)
		}
		return &c
	})
}

// TestAnySequence: whatever is told, the contract is kept, an answer without a round
// trip changes nothing, and no answer takes more than MaxDecrease.
func TestAnySequence(t *testing.T) {
	plain := rapid.Just(filled(t, Config{}))
	published := rapid.Just(filled(t, Config{Variant: Paper}))
	rapid.Check(t, func(t *rapid.T) {
		cfg := rapid.OneOf(plain, published, anyConfig()).Draw(t, "config")
		cctest.AnySequence(t, cctest.Subject{New: algorithm(cfg).New, MinRate: cfg.MinRate, Each: wrong})
	})
}

// wrong says what is wrong with the controller after s, beyond the contract.
func wrong(ctl cc.Controller, s cctest.Step) error {
	c := ctl.(*Control)
	if s.Timeout {
		return nil
	}
	if s.RTT <= 0 && s.Rate != s.Before {
		return fmt.Errorf("an answer without a round trip moves the rate from %v to %v", s.Before, s.Rate)
	}
	low := min(c.link, c.cfg.MinRate)
	if floor := max(low, s.Before*(1-c.cfg.MaxDecrease)*(1-1e-9)); s.Rate < min(s.Before, floor) {
		return fmt.Errorf("one answer takes the rate from %v to %v", s.Before, s.Rate)
	}
	return nil
}

// TestAnyConfig: Fill accepts a config or names a field, and what it accepts it
// accepts again, unchanged.
func TestAnyConfig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := cctest.AnySpan()
		c, err := Config{
			Variant: Variant(rapid.Uint8Range(0, 3).Draw(t, "variant")),
			TLow:    span.Draw(t, "tLow"), THigh: span.Draw(t, "tHigh"), MinRTT: span.Draw(t, "minRTT"),
			RTTRef: span.Draw(t, "rttRef"), BaseRTT: span.Draw(t, "baseRTT"),
			Alpha: rapid.Float64().Draw(t, "alpha"), Beta: rapid.Float64().Draw(t, "beta"),
			MaxDecrease: rapid.Float64().Draw(t, "maxDecrease"),
			AddRate:     rapid.Float64().Draw(t, "addRate"), MinRate: rapid.Float64().Draw(t, "minRate"),
			HAIAfter: rapid.Int().Draw(t, "haiAfter"),
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
