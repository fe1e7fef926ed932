package timely

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyTime draws times in ns that a session, a broken clock or a fuzzer would give.
func anyTime() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(-5, 5),
		rapid.Int64Range(0, 2_000_000),
		rapid.Int64Range(0, int64(100*time.Hour)),
		rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64 - 1, math.MaxInt64}),
		rapid.Int64(),
	)
}

// anyConfig draws a config that Fill accepts.
func anyConfig() *rapid.Generator[*Config] {
	return rapid.Custom(func(t *rapid.T) *Config {
		part := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(math.SmallestNonzeroFloat64, 1))
		rate := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64))
		span := rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Map(rapid.Int64Range(1, math.MaxInt64), func(i int64) time.Duration { return time.Duration(i) }))
		c := Config{
			Variant: rapid.SampledFrom([]Variant{Patched, Paper}).Draw(t, "variant"),
			MinRTT:  span.Draw(t, "minRTT"),
			BaseRTT: span.Draw(t, "baseRTT"),
			Alpha:   part.Draw(t, "alpha"), Beta: part.Draw(t, "beta"), MaxDecrease: part.Draw(t, "maxDecrease"),
			AddRate: rate.Draw(t, "addRate"), MinRate: rate.Draw(t, "minRate"),
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

// TestAnySequence: whatever is told, the rate stays finite and within its bounds, and
// the bypass limit is not negative.
func TestAnySequence(t *testing.T) {
	plain := rapid.Just(filled(t, Config{}))
	published := rapid.Just(filled(t, Config{Variant: Paper}))
	rapid.Check(t, func(t *rapid.T) {
		cfg := rapid.OneOf(plain, published, anyConfig()).Draw(t, "config")
		link := rapid.OneOf(rapid.Float64Range(1e5, 1e11),
			rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64)).Draw(t, "link")
		c := New(cfg, link)
		if c.Rate() != link {
			t.Fatalf("begins at %v, link %v", c.Rate(), link)
		}
		low := min(link, cfg.MinRate)
		steps := rapid.IntRange(1, 200).Draw(t, "steps")
		now := int64(0)
		for range steps {
			rate, bypass := 0.0, int64(0)
			switch rapid.IntRange(0, 9).Draw(t, "op") {
			case 0:
				rate = c.OnTimeout(now)
			case 1:
				now = anyTime().Draw(t, "now")
				fallthrough
			default:
				now += rapid.Int64Range(0, 200_000).Draw(t, "dt") // may wrap: time jumps back
				before, rtt := c.Rate(), anyTime().Draw(t, "rtt")
				rate, bypass = c.OnAck(now, rtt, anyTime().Draw(t, "base"), rapid.Int().Draw(t, "bytes"), rapid.Bool().Draw(t, "ce"))
				if rtt <= 0 && rate != before {
					t.Fatalf("an answer without a round trip moves the rate from %v to %v", before, rate)
				}
				if floor := max(low, before*(1-cfg.MaxDecrease)*(1-1e-9)); rate < min(before, floor) {
					t.Fatalf("one answer takes the rate from %v to %v", before, rate)
				}
			}
			if !(rate >= low && rate <= link) || rate != c.Rate() || bypass < 0 {
				t.Fatalf("rate %v (Rate() %v), bounds %v to %v, bypass %d", rate, c.Rate(), low, link, bypass)
			}
		}
	})
}

// TestAnyConfig: Fill accepts a config or names a field, and what it accepts it
// accepts again, unchanged.
func TestAnyConfig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.Map(anyTime(), func(i int64) time.Duration { return time.Duration(i) })
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
