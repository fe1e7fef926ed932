package udp

import (
	"fmt"
	"time"
)

// Limits and defaults of Config, in bytes.
const (
	// DefaultMTU fits a jumbo frame of 9000 bytes: less 40 for IPv6 and 8 for UDP.
	// It is a limit, not what every path gets: PathMTU says what the route carries,
	// and a session finds out what the path carries while it connects.
	DefaultMTU = 8952
	// PortableMTU is the default of the portable implementation, which cannot
	// forbid fragments: it fits a 1500-byte path.
	PortableMTU = 1452
	// MinMTU is the smallest MTU that Listen accepts.
	MinMTU = 64
	// MaxMTU4 is the largest MTU over IPv4: 65,535 less 20 for IP and 8 for UDP.
	MaxMTU4 = 65507
	// MaxMTU6 is the largest MTU of a socket that speaks IPv6.
	MaxMTU6 = 65487

	defaultBuffer = 8 << 20
	maxBuffer     = 1 << 30
)

// hostDelay is two hosts' part of a round trip through sockets without any congestion:
// a wake-up of either side (tens of microseconds) and packets that wait in batches.
const hostDelay = 100 * time.Microsecond

// txBatch is how many packets are worth a train of their own where one side waits for the other:
// half of what is usually in flight, so that both have work.
const txBatch = 32

// Config describes a socket. The zero Config is a good one.
type Config struct {
	// MTU is the largest packet in bytes of UDP payload, both ways: larger ones
	// that arrive are dropped. 0 means DefaultMTU, or PortableMTU.
	MTU int
	// RecvBuffer and SendBuffer are the sizes in bytes to ask for of the kernel's
	// buffers. 0 means as much as the system allows, up to 8 MiB. The system may
	// grant less; Caps.RxRing follows what it granted.
	RecvBuffer int
	SendBuffer int
	// NoGSO sends every packet as a datagram of its own.
	NoGSO bool
	// NoGRO receives every packet as a datagram of its own.
	NoGRO bool
	// ReusePort lets several sockets share the address (SO_REUSEPORT); the kernel
	// spreads the peers over them.
	ReusePort bool
	// ECN marks sent packets as ECN-capable, ECT(0) of RFC 3168, and reports
	// marks on received ones.
	ECN bool
	// Portable uses package net, as on systems other than Linux.
	Portable bool
}

// ConfigError says which field of Config is impossible and why.
type ConfigError struct {
	Field  string // name of the field
	Value  int    // its value; 1 for true
	Reason string
	Err    error // transport.ErrUnsupported, or nil
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("udp: Config.%s = %d: %s", e.Field, e.Value, e.Reason)
}

// Unwrap returns e.Err.
func (e *ConfigError) Unwrap() error { return e.Err }

// complete fills in defaults and checks the fields. ip4 says that the socket
// speaks IPv4 only.
func (c Config) complete(ip4 bool) (Config, error) {
	limit := MaxMTU6
	if ip4 {
		limit = MaxMTU4
	}
	if c.MTU == 0 {
		c.MTU = DefaultMTU
		if c.Portable || !haveKernel {
			c.MTU = PortableMTU
		}
	}
	if c.MTU < MinMTU || c.MTU > limit {
		return c, &ConfigError{Field: "MTU", Value: c.MTU,
			Reason: fmt.Sprintf("must be %d to %d bytes", MinMTU, limit)}
	}
	if c.RecvBuffer < 0 || c.RecvBuffer > maxBuffer {
		return c, &ConfigError{Field: "RecvBuffer", Value: c.RecvBuffer, Reason: "must be 0 to 1 GiB"}
	}
	if c.SendBuffer < 0 || c.SendBuffer > maxBuffer {
		return c, &ConfigError{Field: "SendBuffer", Value: c.SendBuffer, Reason: "must be 0 to 1 GiB"}
	}
	if c.RecvBuffer == 0 {
		c.RecvBuffer = defaultBuffer
	}
	if c.SendBuffer == 0 {
		c.SendBuffer = defaultBuffer
	}
	return c, nil
}

// ringSize estimates how many packets of mtu bytes fit a receive buffer of so
// many bytes as the kernel accounts them: each packet costs a power of two that
// holds it with its headers, and a descriptor. A quarter is left aside, since
// the kernel gives room back late.
func ringSize(buffer, mtu int) int {
	const headers, descriptor = 512, 256
	cost := 512
	for cost < mtu+headers {
		cost *= 2
	}
	return max(1, buffer/4*3/(cost+descriptor))
}
