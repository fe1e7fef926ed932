package lending

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// Defaults of Config.
const (
	DefaultRing  = 1024
	DefaultCalls = 8
)

// FrontBytes is how many bytes at the beginning of a packet a Violation shows: the
// library's header.
const FrontBytes = 24

// Config says for how long packets are lent.
type Config struct {
	// Seed starts the generator that delays are drawn from.
	Seed uint64
	// Ring is how many packets can be lent at a time; then TxBurst takes no more. 0
	// means DefaultRing.
	Ring int
	// Inline is the size in bytes up to which TxItem.Head is copied by TxBurst. Such a Head may
	// change at once; Data may not. The contract has every Head copied: the MTU or more. A
	// smaller Inline is stricter than the contract; 0 copies nothing.
	Inline int

	// After calls fn once when d has passed. It must return before it does, and call fn on
	// the goroutine that uses the transport, which must be in none of its methods. With
	// After, each packet may leave after Delay and up to Jitter more, drawn evenly.
	After         func(d time.Duration, fn func())
	Delay, Jitter time.Duration
	// Calls is for a transport without After: each packet may leave in the k-th later call
	// of TxBurst or RxBurst, with k drawn from 1 to Calls. 0 means DefaultCalls.
	Calls int

	// Report gets each violation, once, on the goroutine that uses the transport. It must
	// not call the transport. nil panics with the violation.
	Report func(v Violation)
}

// Violation is a packet whose bytes changed while they were lent.
type Violation struct {
	Dst    transport.Addr
	Packet uint64 // its number among the packets that TxBurst took, from 0
	Size   int    // bytes
	// Then and Now are its first bytes when TxBurst took it and when it left, as far as
	// Size goes.
	Then, Now [FrontBytes]byte
	// Rest says that bytes behind these changed.
	Rest bool
	// Gone says that the memory cannot be read any more; then Now is zero.
	Gone bool
	// Flushed says that the packet left in Flush.
	Flushed bool
}

// Offset returns the place of the first byte that changed, FrontBytes if it is there or
// later, and 0 if the memory is gone.
func (v *Violation) Offset() int {
	for i := range v.Then {
		if v.Then[i] != v.Now[i] || v.Gone {
			return i
		}
	}
	return FrontBytes
}

// String describes the violation in one line.
func (v Violation) String() string {
	var b strings.Builder
	n := min(v.Size, FrontBytes)
	fmt.Fprintf(&b, "packet %d of %d bytes to %v changed while it was lent: began with %s, ",
		v.Packet, v.Size, v.Dst, hex.EncodeToString(v.Then[:n]))
	switch {
	case v.Gone:
		b.WriteString("now its memory is gone")
	case v.Offset() == FrontBytes:
		b.WriteString("and differs behind that")
	default:
		fmt.Fprintf(&b, "now with %s", hex.EncodeToString(v.Now[:n]))
		if v.Rest {
			b.WriteString(" and differs behind that too")
		}
	}
	if v.Flushed {
		b.WriteString(" (found by Flush)")
	}
	return b.String()
}

// ConfigError says which field of a Config is wrong, as "Ring".
type ConfigError struct {
	Field  string
	Reason string
}

// Error returns field and reason.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("lending: Config.%s %s", e.Field, e.Reason)
}

// Validate returns a *ConfigError for the first field that is out of range, or nil.
func (c *Config) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"Ring", c.Ring}, {"Inline", c.Inline}, {"Calls", c.Calls}} {
		if f.value < 0 || f.value > math.MaxInt32 {
			return &ConfigError{f.name, fmt.Sprintf("is %d, must be 0 to %d", f.value, math.MaxInt32)}
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Delay", c.Delay}, {"Jitter", c.Jitter}} {
		if f.value < 0 || f.value > time.Hour {
			return &ConfigError{f.name, fmt.Sprintf("is %v, must be 0 to 1h", f.value)}
		}
	}
	return nil
}

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	if c.Ring == 0 {
		c.Ring = DefaultRing
	}
	if c.Calls == 0 {
		c.Calls = DefaultCalls
	}
	return c
}
