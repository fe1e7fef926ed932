package ud

import (
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

// Limits and defaults of Config.
const (
	// MinMTU is the smallest MTU in bytes.
	MinMTU = 64

	defaultRing   = 4096
	minRing       = 128 // the least that the default falls back to
	maxRing       = 1 << 16
	defaultSend   = 512
	defaultInline = 128
	defaultPeers  = 1 << 14
	defaultMeet   = 3 * time.Second
	hopLimit      = 64
	grhSize       = 40
)

// Config describes an endpoint. The zero Config is a good one: it takes the device that has the
// listening address, or else the first active port.
type Config struct {
	// Device is the device's name, such as "mlx5_0". Empty: the one that has the address.
	Device string
	// Port is the device's port, from 1. 0: the first active one that fits.
	Port int
	// GID is the own GID: its index in the port's table, as a number, or the GID
	// as text, which over RoCE v2 is an IP address. Empty: the one of the
	// listening address; without one, RoCE v2 before v1 and IPv4 before IPv6.
	GID string
	// MTU is the largest packet in bytes, both ways. 0: the MTU of the link, up to 4096.
	MTU int
	// RecvRing is the number of receive buffers. Each takes MTU bytes of locked memory; a
	// few of them are with the caller of RxBurst, so fewer packets can wait.
	// 0: 4096, or fewer if so much cannot be locked.
	RecvRing int
	// SendRing is the length of the send queue. 0: 512. Rounded up to a power of two.
	SendRing int
	// MaxInline is the size in bytes up to which packets are handed to the adapter
	// with the request itself. 0: 128. Negative: none. The device may take fewer.
	MaxInline int
	// MaxPeers limits the table of peers. 0: 16,384.
	MaxPeers int
	// MeetTimeout is how long Resolve waits for an answer. 0: 3 s.
	MeetTimeout time.Duration
	// ECN marks sent packets as ECN-capable, ECT(0) of RFC 3168, and reports marks on
	// received ones. Only Ethernet has it.
	ECN bool
	// DSCP is the differentiated services code point of sent packets, 0 to 63.
	DSCP int
	// ServiceLevel is the service level, 0 to 15; on Ethernet the priority.
	ServiceLevel int
	// Copy makes every packet be copied, also those in registered memory.
	Copy bool
}

func (c *Config) check() error {
	bad := func(field string, value any, format string, args ...any) error {
		return &ConfigError{Field: field, Value: value, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case c.Port < 0 || c.Port > 255:
		return bad("Port", c.Port, "%w: must be 1 to 255", ErrNoPort)
	case c.MTU != 0 && c.MTU < MinMTU:
		return bad("MTU", c.MTU, "must be at least %d bytes", MinMTU)
	case c.RecvRing < 0 || c.RecvRing > maxRing:
		return bad("RecvRing", c.RecvRing, "must be 0 to %d", maxRing)
	case c.SendRing < 0 || c.SendRing > maxRing:
		return bad("SendRing", c.SendRing, "must be 0 to %d", maxRing)
	case c.MaxPeers < 0:
		return bad("MaxPeers", c.MaxPeers, "must not be negative")
	case c.MeetTimeout < 0:
		return bad("MeetTimeout", c.MeetTimeout, "must not be negative")
	case c.DSCP < 0 || c.DSCP > 63:
		return bad("DSCP", c.DSCP, "must be 0 to 63")
	case c.ServiceLevel < 0 || c.ServiceLevel > 15:
		return bad("ServiceLevel", c.ServiceLevel, "must be 0 to 15")
	}
	return nil
}

// complete fills in defaults.
func (c *Config) complete() {
	set := func(v *int, standard int) {
		if *v == 0 {
			*v = standard
		}
	}
	set(&c.SendRing, defaultSend)
	set(&c.MaxInline, defaultInline)
	set(&c.MaxPeers, defaultPeers)
	size := 16
	for size < c.SendRing {
		size *= 2
	}
	c.SendRing = size
	c.MaxInline = max(0, c.MaxInline)
	if c.MeetTimeout == 0 {
		c.MeetTimeout = defaultMeet
	}
}

// class returns the traffic class byte of sent packets: DSCP and ECN.
func (c *Config) class() uint32 {
	class := uint32(c.DSCP) << 2
	if c.ECN {
		class |= 2
	}
	return class
}

// unsupported makes err match transport.ErrUnsupported, too.
func unsupported(err error) error { return fmt.Errorf("ud: %w: %w", transport.ErrUnsupported, err) }

// txBatch is half of what is usually in flight: see package udp.
const txBatch = 32

// hostDelay is two hosts' part of a round trip without any congestion: nothing
// when the adapter is hardware. With soft-RoCE the kernel computes a checksum over every
// packet on the processors that also run the program, so that a full window waits for them.
func hostDelay(a verbs.DeviceAttr) time.Duration {
	if a.VendorID == verbs.SoftVendor {
		return time.Millisecond
	}
	return 0
}
