package dcqcn

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
		rate := rapid.OneOf(rapid.Just(0.0),
			rapid.Float64Range(math.SmallestNonzeroFloat64, math.MaxFloat64))
		c := Config{
			CNPInterval:      time.Duration(rapid.Int64Range(1, math.MaxInt64-1).Draw(t, "cnp")),
			IncreaseInterval: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "increase")),
			IncreaseBytes:    rapid.Int64Range(0, maxIncreaseBytes).Draw(t, "bytes"),
			Stages:           rapid.IntRange(0, maxStages).Draw(t, "stages"),
			Gain: rapid.OneOf(rapid.Just(0.0),
				rapid.Float64Range(math.SmallestNonzeroFloat64, 1)).Draw(t, "gain"),
			AddRate:   rate.Draw(t, "addRate"),
			HyperRate: rate.Draw(t, "hyperRate"),
			MinRate:   rate.Draw(t, "minRate"),
		}
		c.AlphaInterval = time.Duration(rapid.Int64Range(int64(c.CNPInterval)+1, math.MaxInt64).Draw(t,
			"alpha"))
		c, err := c.Fill()
		if err != nil {
			t.Fatal(err)
		}
		return &c
	})
}

// TestAnySequence: whatever is told, the contract is kept, alpha stays within 0 and 1, a
// mark halves at most, and nothing but marks and timeouts lowers the rate.
func TestAnySequence(t *testing.T) {
	plain := rapid.Just(filled(t, Config{}))
	hasty := rapid.Just(filled(t, Config{CNPInterval: 1, AlphaInterval: 2, IncreaseInterval: 1,
		IncreaseBytes: 1, Stages: 1}))
	rapid.Check(t, func(t *rapid.T) {
		cfg := rapid.OneOf(plain, hasty, anyConfig()).Draw(t, "config")
		cctest.AnySequence(t, cctest.Subject{New: algorithm(cfg).New, MinRate: cfg.MinRate, Each: wrong})
	})
}

// wrong says what is wrong with the controller after s, beyond the contract.
func wrong(ctl cc.Controller, s cctest.Step) error {
	c := ctl.(*Control)
	switch {
	case !(c.alpha >= 0 && c.alpha <= 1) || !(c.target >= 0 && c.target <= c.link):
		return fmt.Errorf("alpha %v, target %v", c.alpha, c.target)
	case s.Timeout:
		return nil
	case !s.CE && s.Rate < s.Before || s.Rate < s.Before*0.499999:
		return fmt.Errorf("from %v to %v", s.Before, s.Rate)
	case s.Bypass != Bypass:
		return fmt.Errorf("bypass limit %v", s.Bypass)
	}
	return nil
}
