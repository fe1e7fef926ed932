package faulty

import (
	"fmt"
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Time is a point on a Transport's clock. The alias gives it a name outside this module.
type Time = monotime.Time

// Defaults of Config and Faults.
const (
	DefaultHold        = 256
	DefaultReorderBy   = 3
	DefaultReorderHold = time.Millisecond
)

// Config says what goes wrong. The zero Config is a perfect network.
type Config struct {
	// Seed starts the generator that all faults are drawn from.
	Seed uint64
	// TX are the faults of packets sent, RX those of packets received.
	TX, RX Faults
	// Hold is how many packets can be held per direction, at MTU bytes each. When
	// the store is full, packets pass without being held or repeated, and
	// Counts.Overflows counts them. 0 means DefaultHold.
	Hold int
	// Clock returns the time, which never goes backwards. Only the goroutine that
	// uses the transport calls it. nil means the system's clock.
	Clock func() Time
}

// Faults are the faults of one direction. Loss, Dup, Reorder and Corrupt are
// probabilities per packet, 0 to 1, independent of each other.
type Faults struct {
	Loss    float64
	Dup     float64
	Reorder float64
	Corrupt float64

	// ReorderBy bounds how many later packets overtake a reordered one: the number
	// is drawn from 1 to ReorderBy. On the way in a packet is given out after the
	// burst in which that number was reached. 0 means DefaultReorderBy.
	ReorderBy int
	// ReorderHold bounds how long a reordered packet is held when too few follow.
	// 0 means DefaultReorderHold.
	ReorderHold time.Duration

	// Delay holds every packet for so long, and Jitter for up to so much longer,
	// drawn evenly; jitter reorders too.
	Delay, Jitter time.Duration
}

// ConfigError says which field of a Config is wrong, as "TX.Loss".
type ConfigError struct {
	Field  string
	Reason string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("faulty: Config.%s %s", e.Field, e.Reason)
}

// Validate returns a *ConfigError for the first field that is out of range, or nil.
func (c *Config) Validate() error {
	if err := c.TX.validate("TX."); err != nil {
		return err
	}
	if err := c.RX.validate("RX."); err != nil {
		return err
	}
	if c.Hold < 0 || c.Hold > math.MaxInt32 {
		return &ConfigError{"Hold", fmt.Sprintf("is %d, must be 0 to %d", c.Hold, math.MaxInt32)}
	}
	return nil
}

func (f *Faults) validate(prefix string) error {
	for _, p := range []struct {
		name  string
		value float64
	}{{"Loss", f.Loss}, {"Dup", f.Dup}, {"Reorder", f.Reorder}, {"Corrupt", f.Corrupt}} {
		if !(p.value >= 0 && p.value <= 1) { // NaN too
			return &ConfigError{prefix + p.name, fmt.Sprintf("is %v, must be 0 to 1", p.value)}
		}
	}
	if f.ReorderBy < 0 || f.ReorderBy > math.MaxInt32 {
		return &ConfigError{prefix + "ReorderBy",
			fmt.Sprintf("is %d, must be 0 to %d", f.ReorderBy, math.MaxInt32)}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ReorderHold", f.ReorderHold}, {"Delay", f.Delay}, {"Jitter", f.Jitter}} {
		if d.value < 0 || d.value > time.Hour {
			return &ConfigError{prefix + d.name, fmt.Sprintf("is %v, must be 0 to 1h", d.value)}
		}
	}
	return nil
}

// withDefaults fills in what was left zero.
func (f Faults) withDefaults() Faults {
	if f.ReorderBy == 0 {
		f.ReorderBy = DefaultReorderBy
	}
	if f.ReorderHold == 0 {
		f.ReorderHold = DefaultReorderHold
	}
	return f
}

// holds reports whether packets can be held or repeated, which needs a store.
func (f *Faults) holds() bool {
	return f.Dup > 0 || f.Reorder > 0 || f.Delay > 0 || f.Jitter > 0
}

// any reports whether anything can happen at all.
func (f *Faults) any() bool { return f.holds() || f.Loss > 0 || f.Corrupt > 0 }
