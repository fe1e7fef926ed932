package dcqcn

import (
	"fmt"
	"math"
	"time"
)

// Config holds the parameters. The zero value of a field means its default, so the
// zero Config is usable after Fill. doc.go tells where the defaults come from.
type Config struct {
	// CNPInterval is the least time between two reactions to marks. 50 us.
	CNPInterval time.Duration
	// AlphaInterval is the time without a reaction after which alpha, the estimate
	// of congestion, falls by one step. 55 us; it must be above CNPInterval, or alpha
	// falls even while each answer carries a mark.
	AlphaInterval time.Duration
	// IncreaseInterval is the period of the timer that raises the rate. 55 us.
	IncreaseInterval time.Duration
	// IncreaseBytes is the period of the byte counter that raises the rate, bytes on
	// the wire. 10e6.
	IncreaseBytes int64
	// Stages is the number of periods of fast recovery. 5.
	Stages int

	// Gain is g, the weight of the newest period in alpha, in (0, 1]. 1/256.
	Gain float64
	// AddRate is the step of additive increase, bytes per second. 2e6.
	AddRate float64
	// HyperRate is the step of hyper increase, bytes per second. 50e6.
	HyperRate float64
	// MinRate is the least rate, bytes per second. 1.25e6. A slower link's rate
	// takes its place.
	MinRate float64
}

// ConfigError says which field of a Config is wrong.
type ConfigError struct {
	Field, Reason string
}

// Error returns the field and the reason.
func (e *ConfigError) Error() string {
	return "dcqcn: config: " + e.Field + " " + e.Reason
}

// Limits that keep counters from overflowing.
const (
	maxStages        = 1 << 16
	maxIncreaseBytes = int64(1 << 40)
)

// Fill returns c with defaults in place of zeros. The error is a *ConfigError that
// names the first bad field.
func (c Config) Fill() (Config, error) {
	c.setDefaults()
	for _, f := range [...]struct {
		name  string
		value time.Duration
	}{{"CNPInterval", c.CNPInterval}, {"AlphaInterval", c.AlphaInterval},
		{"IncreaseInterval", c.IncreaseInterval}} {
		if f.value < 0 {
			return c, &ConfigError{f.name, fmt.Sprintf("is %v, must not be negative", f.value)}
		}
	}
	switch {
	case c.IncreaseBytes < 0 || c.IncreaseBytes > maxIncreaseBytes:
		return c, &ConfigError{"IncreaseBytes",
			fmt.Sprintf("is %d, must be 0 to %d (1 TiB)", c.IncreaseBytes, maxIncreaseBytes)}
	case c.Stages < 0 || c.Stages > maxStages:
		return c, &ConfigError{"Stages", fmt.Sprintf("is %d, must be 0 to %d", c.Stages, maxStages)}
	case c.AlphaInterval <= c.CNPInterval:
		return c, &ConfigError{"AlphaInterval",
			fmt.Sprintf("is %v, must be above CNPInterval, %v", c.AlphaInterval, c.CNPInterval)}
	}
	for _, f := range [...]struct {
		name       string
		value, max float64
	}{
		{"Gain", c.Gain, 1}, {"AddRate", c.AddRate, math.MaxFloat64},
		{"HyperRate", c.HyperRate, math.MaxFloat64}, {"MinRate", c.MinRate, math.MaxFloat64},
	} {
		if reason := badFloat(f.value, f.max); reason != "" {
			return c, &ConfigError{f.name, reason}
		}
	}
	return c, nil
}

func (c *Config) setDefaults() {
	orDefault(&c.CNPInterval, 50*time.Microsecond)
	orDefault(&c.AlphaInterval, 55*time.Microsecond)
	orDefault(&c.IncreaseInterval, 55*time.Microsecond)
	orDefault(&c.IncreaseBytes, 10e6)
	orDefault(&c.Stages, 5)
	orDefault(&c.Gain, 1.0/256)
	orDefault(&c.AddRate, 2e6)
	orDefault(&c.HyperRate, 50e6)
	orDefault(&c.MinRate, 1.25e6)
}

func orDefault[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
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
