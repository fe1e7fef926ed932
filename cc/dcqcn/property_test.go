package dcqcn

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
		rate := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64))
		c := Config{
			CNPInterval:      time.Duration(rapid.Int64Range(1, math.MaxInt64-1).Draw(t, "cnp")),
			IncreaseInterval: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "increase")),
			IncreaseBytes:    rapid.Int64Range(0, maxIncreaseBytes).Draw(t, "bytes"),
			Stages:           rapid.IntRange(0, maxStages).Draw(t, "stages"),
			Gain:             rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(math.SmallestNonzeroFloat64, 1)).Draw(t, "gain"),
			AddRate:          rate.Draw(t, "addRate"),
			HyperRate:        rate.Draw(t, "hyperRate"),
			MinRate:          rate.Draw(t, "minRate"),
		}
		c.AlphaInterval = time.Duration(rapid.Int64Range(int64(c.CNPInterval)+1, math.MaxInt64).Draw(t, "alpha"))
		c, err := c.Fill()
		if err != nil {
			t.Fatal(err)
		}
		return &c
	})
}

// TestAnySequence: whatever is told, the rate stays finite and within its bounds, alpha
// within 0 and 1, a mark halves at most, and nothing but marks and timeouts lowers
// the rate.
func TestAnySequence(t *testing.T) {
	plain := rapid.Just(filled(t, Config{}))
	hasty := rapid.Just(filled(t, Config{CNPInterval: 1, AlphaInterval: 2, IncreaseInterval: 1, IncreaseBytes: 1, Stages: 1}))
	rapid.Check(t, func(t *rapid.T) {
		cfg := rapid.OneOf(plain, hasty, anyConfig()).Draw(t, "config")
		link := rapid.OneOf(rapid.Float64Range(1e5, 1e11),
			rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64)).Draw(t, "link")
		c := New(cfg, link)
		if c.Rate() != link {
			t.Fatalf("begins at %v, link %v", c.Rate(), link)
		}
		low := min(link, cfg.MinRate)
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			rate, bypass := 0.0, int64(math.MaxInt64)
			switch rapid.IntRange(0, 19).Draw(t, "op") {
			case 0:
				rate = c.OnTimeout(now)
			case 1, 2:
				now = anyTime().Draw(t, "now")
				fallthrough
			default:
				now += rapid.Int64Range(0, 200_000).Draw(t, "dt") // may wrap: time jumps back
				before, ce := c.Rate(), rapid.Bool().Draw(t, "ce")
				rate, bypass = c.OnAck(now, anyTime().Draw(t, "rtt"), anyTime().Draw(t, "base"), rapid.Int().Draw(t, "bytes"), ce)
				if !ce && rate < before || rate < before*0.499999 {
					t.Fatalf("from %v to %v, mark %t", before, rate, ce)
				}
			}
			if !(rate >= low && rate <= link) || rate != c.Rate() || bypass != Bypass {
				t.Fatalf("rate %v (Rate() %v), bounds %v to %v, bypass %d", rate, c.Rate(), low, link, bypass)
			}
			if !(c.alpha >= 0 && c.alpha <= 1) || !(c.target >= 0 && c.target <= link) {
				t.Fatalf("alpha %v, target %v", c.alpha, c.target)
			}
		}
	})
}
