package afpacket

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/userspace-rpc/erpc/transport/rawudp"
)

// Guard says whether the kernel's IP stack is kept from the endpoint's frames.
type Guard uint8

const (
	// GuardAuto uses the guard if the system lets it; see Conn.Guarded.
	GuardAuto Guard = iota
	// GuardMust makes Listen fail without the guard.
	GuardMust
	// GuardOff leaves the frames to the kernel, whose bound socket drops them.
	GuardOff
)

// Limits and defaults of Config.
const (
	// DefaultRing is the default number of frames of the receive ring. Each takes 64.5 KiB of
	// kernel memory, since it may hold a train.
	DefaultRing = 256
	// MaxRing is the largest ring.
	MaxRing = 16384

	// ringUnit divides the size of each ring: so many frames are whole pages, of 64 KiB too.
	ringUnit = 128
)

// Config describes an endpoint. The zero Config is a good one.
type Config struct {
	// Interface is the name of the network interface. "" means the one that has the IP
	// address given to Listen.
	Interface string
	// MTU, LinkGrace and NeighbourTimeout are those of rawudp.Config.
	MTU              int
	LinkGrace        time.Duration
	NeighbourTimeout time.Duration
	// Neighbours are MAC addresses that override the kernel's tables: of peers on the link, or of the
	// gateway to them.
	Neighbours map[netip.Addr]rawudp.MAC
	// Ring is the number of frames of the receive ring, rounded up to a multiple of 128. 0
	// means DefaultRing.
	Ring int
	// Guard says whether the kernel's IP stack is kept from the frames.
	Guard Guard
	// NoTrains sends every packet as a frame of its own. Trains are still received.
	NoTrains bool
	// NoOffload leaves no checksum to the kernel and takes no trains: frames are sent
	// and received as they are on a wire. For interfaces whose offloads are broken.
	NoOffload bool
	// BypassQdisc sends past the queueing discipline of the interface, its traffic
	// control and packet taps.
	BypassQdisc bool
	// ECN marks sent packets as ECN-capable, ECT(0) of RFC 3168. Marks on received
	// packets are always reported.
	ECN bool
}

// ConfigError says which field of Config is impossible and why.
type ConfigError struct {
	Field  string
	Value  int
	Reason string
}

// Error implements error.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("afpacket: Config.%s = %d: %s", e.Field, e.Value, e.Reason)
}

// complete fills in defaults and checks the fields.
func (c Config) complete() (Config, error) {
	if c.Ring == 0 {
		c.Ring = DefaultRing
	}
	if c.Ring < 1 || c.Ring > MaxRing {
		return c, &ConfigError{"Ring", c.Ring, fmt.Sprintf("must be 1 to %d frames", MaxRing)}
	}
	c.Ring = (c.Ring + ringUnit - 1) / ringUnit * ringUnit
	if c.MTU != 0 && c.MTU < rawudp.MinMTU || c.MTU > 1<<16 {
		return c, &ConfigError{"MTU", c.MTU, fmt.Sprintf("must be %d to 65536 bytes", rawudp.MinMTU)}
	}
	if c.Guard > GuardOff {
		return c, &ConfigError{"Guard", int(c.Guard), "no such mode: must be at most GuardOff"}
	}
	return c, nil
}
