package swift

import (
	"fmt"
	"math"
	"time"
)

// Config holds the parameters. The zero value of a field means its default, so the
// zero Config is usable after Fill. doc.go tells where the defaults come from.
type Config struct {
	// Target is the round trip to keep to where few flows share a short path. 25 us.
	Target time.Duration
	// BaseRTT is the longest round trip of an idle path for which Target holds as it is.
	// 60 us. A session whose least round trip is longer has its target raised by it.
	BaseRTT time.Duration

	// FlowRange is the most that flow scaling adds to the target, for windows of at most
	// FlowMin packets. It falls to 0 at FlowMax. 100 us.
	FlowRange time.Duration
	// FlowMin is the window, in packets, below which flow scaling adds no more. 0.1. It must
	// be at most half of FlowMax.
	FlowMin float64
	// FlowMax is the window, in packets, from which on flow scaling adds nothing. 100.
	FlowMax float64

	// AddPackets is the step of additive increase, in packets for each window that was
	// answered, or for each answer where the window is less than a packet. 0.1.
	AddPackets float64
	// Beta weighs how far a round trip is above the target, as part of that round trip, in
	// the decrease; in (0, 1]. 0.4.
	Beta float64
	// MaxDecrease is the largest part of the window that one decrease takes away, and what
	// a timeout takes; in (0, 1]. 0.5.
	MaxDecrease float64

	// Packet is the size of a packet, bytes on the wire: the unit of windows. 1000.
	Packet int
	// MinRate is the least rate, bytes per second. 100e3. A slower link's rate takes its
	// place.
	MinRate float64
	// ResetAfter is the number of timeouts in a row after which the rate is MinRate. 5.
	ResetAfter int
}

// ConfigError says which field of a Config is wrong.
type ConfigError struct {
	Field, Reason string
}

// Error returns the field and the reason.
func (e *ConfigError) Error() string {
	return "swift: config: " + e.Field + " " + e.Reason
}

// Limits that keep counters from overflowing.
const (
	maxPacket     = 1 << 20
	maxResetAfter = math.MaxUint16
)

// Fill returns c with defaults in place of zeros. The error is a *ConfigError that
// names the first bad field.
func (c Config) Fill() (Config, error) {
	c.setDefaults()
	for _, f := range [...]struct {
		name  string
		value time.Duration
	}{{"Target", c.Target}, {"BaseRTT", c.BaseRTT}, {"FlowRange", c.FlowRange}} {
		if f.value < 0 {
			return c, &ConfigError{f.name, fmt.Sprintf("is %v, must not be negative", f.value)}
		}
	}
	for _, f := range [...]struct {
		name       string
		value, max float64
	}{
		{"FlowMin", c.FlowMin, math.MaxFloat64}, {"FlowMax", c.FlowMax, math.MaxFloat64},
		{"AddPackets", c.AddPackets, math.MaxFloat64}, {"Beta", c.Beta, 1},
		{"MaxDecrease", c.MaxDecrease, 1}, {"MinRate", c.MinRate, math.MaxFloat64},
	} {
		if reason := badFloat(f.value, f.max); reason != "" {
			return c, &ConfigError{f.name, reason}
		}
	}
	switch {
	case c.FlowMin > c.FlowMax/2:
		return c, &ConfigError{"FlowMin",
			fmt.Sprintf("is %v, must be at most half of FlowMax, %v", c.FlowMin, c.FlowMax)}
	case c.Packet < 0 || c.Packet > maxPacket:
		return c, &ConfigError{"Packet", fmt.Sprintf("is %d, must be 0 to %d", c.Packet, maxPacket)}
	case c.ResetAfter < 0 || c.ResetAfter > maxResetAfter:
		return c, &ConfigError{"ResetAfter",
			fmt.Sprintf("is %d, must be 0 to %d", c.ResetAfter, maxResetAfter)}
	}
	return c, nil
}

func (c *Config) setDefaults() {
	orDefault(&c.Target, 25*time.Microsecond)
	orDefault(&c.BaseRTT, 60*time.Microsecond)
	orDefault(&c.FlowRange, 100*time.Microsecond)
	orDefault(&c.FlowMin, 0.1)
	orDefault(&c.FlowMax, 100)
	orDefault(&c.AddPackets, 0.1)
	orDefault(&c.Beta, 0.4)
	orDefault(&c.MaxDecrease, 0.5)
	orDefault(&c.Packet, 1000)
	orDefault(&c.MinRate, 100e3)
	orDefault(&c.ResetAfter, 5)
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
