package pcap

import (
	"fmt"
	"time"
)

// Defaults and limits of Config.
const (
	DefaultBuffer = 4 << 20 // bytes
	// MaxSnapLen is the longest frame in bytes that common tools read.
	MaxSnapLen = 262144
	// MinSnapLen has room for Ethernet, IPv6, UDP and a packet header.
	MinSnapLen = 14 + 40 + 8 + 24
	// recordHeader is the size in bytes of the header in front of each frame.
	recordHeader = 16
)

// Config says how to capture. The zero Config is a good one.
type Config struct {
	// Buffer is how many bytes of capture wait while the writer is busy; twice as much
	// memory is used. 0 means DefaultBuffer. It holds at least one frame of SnapLen bytes.
	Buffer int
	// SnapLen is how many bytes of each frame are kept, its made-up headers included; the
	// full length is noted. 0 means MaxSnapLen; MinSnapLen keeps the headers only.
	SnapLen int
	// Block makes a full buffer hold up the traffic instead of leaving packets out: for
	// captures that must be complete.
	Block bool
	// Now is the clock that stamps packets; nil means the system's. A simulation gives its
	// own. It is called from the goroutines that use the transports.
	Now func() time.Time
}

// ConfigError says which field of Config is impossible and why.
type ConfigError struct {
	Field  string // name of the field
	Value  int    // its value, bytes
	Reason string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("pcap: Config.%s = %d: %s", e.Field, e.Value, e.Reason)
}

// complete fills in defaults and checks the fields.
func (c Config) complete() (Config, error) {
	if c.SnapLen == 0 {
		c.SnapLen = MaxSnapLen
	}
	if c.SnapLen < MinSnapLen || c.SnapLen > MaxSnapLen {
		return c, &ConfigError{"SnapLen", c.SnapLen,
			fmt.Sprintf("must be %d to %d bytes", MinSnapLen, MaxSnapLen)}
	}
	if c.Buffer == 0 {
		c.Buffer = DefaultBuffer
	}
	if c.Buffer < c.SnapLen+recordHeader {
		return c, &ConfigError{"Buffer", c.Buffer,
			fmt.Sprintf("must be at least %d bytes, for a frame of %d",
				c.SnapLen+recordHeader, c.SnapLen)}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
