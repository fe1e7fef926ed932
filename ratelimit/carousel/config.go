package carousel

import (
	"fmt"
	"math/bits"
	"time"
)

// Defaults for fields of Config that are zero.
const (
	DefaultGranularity = 500 * time.Nanosecond
	DefaultHorizon     = 8 * time.Millisecond
)

// Limits of Config.
const (
	MinGranularity = 2 * time.Nanosecond
	MaxGranularity = time.Second
	// MaxSlots is the most slots that a wheel may have: what three levels of the
	// bitmap can tell apart.
	MaxSlots = 64 * 64 * 64

	minSlots = 64 // one word of the bitmap
)

// Config is the shape of a wheel. The zero value means the defaults.
type Config struct {
	// Granularity is the width of a slot, rounded up to a power of two of
	// nanoseconds: 512 ns for the default of 500 ns.
	Granularity time.Duration
	// Horizon is how far ahead of now the wheel must reach at least. The number of
	// slots is rounded up to a power of two; [Wheel.Horizon] tells what came of it.
	// Horizon/Granularity may be at most about [MaxSlots].
	Horizon time.Duration
}

// ConfigError says which field of a Config is wrong.
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string { return "carousel: config: " + e.Field + " " + e.Reason }

// shape returns the width of a slot as a power of two of ns, and the number of slots.
func (c Config) shape() (shift uint, slots int64, err error) {
	if c.Granularity == 0 {
		c.Granularity = DefaultGranularity
	}
	if c.Horizon == 0 {
		c.Horizon = DefaultHorizon
	}
	if c.Granularity < MinGranularity || c.Granularity > MaxGranularity {
		return 0, 0, &ConfigError{"Granularity",
			fmt.Sprintf("is %v, must be %v to %v", c.Granularity, MinGranularity, MaxGranularity)}
	}
	if c.Horizon < 0 {
		return 0, 0, &ConfigError{"Horizon", fmt.Sprintf("is %v, must not be negative", c.Horizon)}
	}
	shift = uint(bits.Len64(uint64(c.Granularity) - 1))
	// Two more slots: the tick of now itself, and one because now is rounded down
	// to its tick and a time up.
	need := (uint64(c.Horizon)+1<<shift-1)>>shift + 2
	if need > MaxSlots {
		return 0, 0, &ConfigError{"Horizon", fmt.Sprintf("of %v takes %d slots of %v, at most %d can be",
			c.Horizon, need, time.Duration(1)<<shift, MaxSlots)}
	}
	return shift, max(minSlots, int64(1)<<bits.Len64(need-1)), nil
}
