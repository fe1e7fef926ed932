package timely

import (
	"fmt"
	"math"
	"time"
)

// Variant says which rule holds between the two thresholds.
type Variant uint8

const (
	// Patched weighs the gradient and the distance from RTTRef: Patched TIMELY of
	// "ECN or Delay" (Zhu et al., CoNEXT 2016), algorithm 2. It has one fixed
	// point, the fair one.
	Patched Variant = iota
	// Paper follows the gradient alone: TIMELY (Mittal et al., SIGCOMM 2015),
	// algorithm 1, with hyperactive increase.
	Paper
)

// String returns the variant's name in lower case.
func (v Variant) String() string {
	switch v {
	case Patched:
		return "patched"
	case Paper:
		return "paper"
	}
	return "unknown"
}

// Config holds the parameters. The zero value of a field means its default, so the
// zero Config is usable after Fill. doc.go tells where the defaults come from.
type Config struct {
	// Variant is the rule between the thresholds; the default is Patched.
	Variant Variant

	// TLow is the round trip below which the rate only rises. 25 us for Patched, 50 us
	// for Paper.
	TLow time.Duration
	// THigh is the round trip above which the rate falls whatever the gradient
	// is. 1 ms. It is above TLow.
	THigh time.Duration
	// MinRTT normalises the gradient. 2 us. Patched uses the path's least round
	// trip instead where that is longer; Paper does so only above BaseRTT.
	MinRTT time.Duration
	// RTTRef is the round trip above which Patched takes from the rate, the more the
	// longer; it must be below THigh. The default is 4/5 of TLow.
	RTTRef time.Duration
	// BaseRTT is the longest round trip of an idle path for which TLow, THigh and
	// RTTRef hold as they are. 60 us. A session whose least round trip is longer has
	// all three raised by it.
	BaseRTT time.Duration

	// Alpha is the weight of the newest sample in the gradient's moving average,
	// in (0, 1]. 0.46.
	Alpha float64
	// Beta is the factor of multiplicative decrease, in (0, 1]. 0.03 for Patched,
	// 0.26 for Paper.
	Beta float64
	// MaxDecrease is the largest part of the rate that one sample (Paper) or the
	// samples of one round trip (Patched) take away, in (0, 1]. 0.5.
	MaxDecrease float64
	// AddRate is the step of additive increase, bytes per second. Patched makes one
	// step in a round trip, Paper one in MinRTT. 3e6 for Patched, 5e6 for Paper.
	AddRate float64
	// MinRate is the least rate, bytes per second. 1.25e6. A slower link's rate
	// takes its place.
	MinRate float64
	// HAIAfter is the number of samples in a row without a rising round trip
	// after which Paper raises the rate by five steps at a time. 5.
	HAIAfter int
}

// ERPC returns the constants of eRPC's C++ implementation: TIMELY's own rule.
func ERPC() Config {
	return Config{
		Variant: Paper, TLow: 50 * time.Microsecond, THigh: 1000 * time.Microsecond,
		MinRTT: 2 * time.Microsecond, Alpha: 0.46, Beta: 0.26, MaxDecrease: 0.5,
		AddRate: 5e6, MinRate: 15e6, HAIAfter: 5,
	}
}

// ECNOrDelay returns the parameters with which "ECN or Delay" analyses Patched TIMELY
// (section 4.3): an additive step of 10 Mbit/s, a weak decrease.
func ECNOrDelay() Config {
	return Config{
		Variant: Patched, TLow: 50 * time.Microsecond, THigh: 500 * time.Microsecond,
		MinRTT: 20 * time.Microsecond,
		RTTRef: 50 * time.Microsecond, Alpha: 0.875, Beta: 0.008, AddRate: 1.25e6,
	}
}

// ConfigError says which field of a Config is wrong.
type ConfigError struct {
	Field, Reason string
}

// Error returns the field and the reason.
func (e *ConfigError) Error() string {
	return "timely: config: " + e.Field + " " + e.Reason
}

// maxHAIAfter is the largest value of a session's counter.
const maxHAIAfter = math.MaxUint16

// Fill returns c with defaults in place of zeros. The error is a *ConfigError that
// names the first bad field.
func (c Config) Fill() (Config, error) {
	c.setDefaults()
	for _, f := range [...]struct {
		name  string
		value time.Duration
	}{{"TLow", c.TLow}, {"THigh", c.THigh}, {"MinRTT", c.MinRTT}, {"RTTRef", c.RTTRef},
		{"BaseRTT", c.BaseRTT}} {
		if f.value < 0 {
			return c, &ConfigError{f.name, fmt.Sprintf("is %v, must not be negative", f.value)}
		}
	}
	for _, f := range [...]struct {
		name  string
		value float64
		max   float64
	}{
		{"Alpha", c.Alpha, 1}, {"Beta", c.Beta, 1}, {"MaxDecrease", c.MaxDecrease, 1},
		{"AddRate", c.AddRate, math.MaxFloat64}, {"MinRate", c.MinRate, math.MaxFloat64},
	} {
		if reason := badFloat(f.value, f.max); reason != "" {
			return c, &ConfigError{f.name, reason}
		}
	}
	switch {
	case c.Variant > Paper:
		return c, &ConfigError{"Variant", fmt.Sprintf("is %d, must be Patched or Paper", c.Variant)}
	case c.TLow >= c.THigh:
		return c, &ConfigError{"TLow", fmt.Sprintf("is %v, must be below THigh, %v", c.TLow, c.THigh)}
	case c.RTTRef >= c.THigh:
		return c, &ConfigError{"RTTRef",
			fmt.Sprintf("is %v, must be below THigh, %v", c.RTTRef, c.THigh)}
	case c.HAIAfter < 0 || c.HAIAfter > maxHAIAfter:
		return c, &ConfigError{"HAIAfter",
			fmt.Sprintf("is %d, must be 0 to %d", c.HAIAfter, maxHAIAfter)}
	}
	return c, nil
}

func (c *Config) setDefaults() {
	low, beta, addRate := 25*time.Microsecond, 0.03, 3e6
	if c.Variant == Paper {
		low, beta, addRate = 50*time.Microsecond, 0.26, 5e6
	}
	orDuration(&c.TLow, low)
	orDuration(&c.THigh, 1000*time.Microsecond)
	orDuration(&c.MinRTT, 2*time.Microsecond)
	orDuration(&c.RTTRef, c.TLow-c.TLow/5)
	orDuration(&c.BaseRTT, 60*time.Microsecond)
	orFloat(&c.Alpha, 0.46)
	orFloat(&c.Beta, beta)
	orFloat(&c.AddRate, addRate)
	orFloat(&c.MaxDecrease, 0.5)
	orFloat(&c.MinRate, 1.25e6)
	if c.HAIAfter == 0 {
		c.HAIAfter = 5
	}
}

func orDuration(d *time.Duration, otherwise time.Duration) {
	if *d == 0 {
		*d = otherwise
	}
}

func orFloat(f *float64, otherwise float64) {
	if *f == 0 {
		*f = otherwise
	}
}

// badFloat says why v is not in (0, max], or nothing.
func badFloat(v, max float64) string {
	switch {
	case v > 0 && v <= max:
		return ""
	case max == 1:
		return fmt.Sprintf("is %v, must be above 0 and at most 1", v)
	}
	return fmt.Sprintf("is %v, must be above 0 and finite", v)
}
