package afxdp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/userspace-rpc/erpc/transport/rawudp"
)

// Mode says where on the way of a frame the XDP program runs.
type Mode uint8

const (
	// ModeAuto is ModeNative where the link's driver can, else ModeGeneric.
	ModeAuto Mode = iota
	// ModeNative runs the program in the link's driver.
	ModeNative
	// ModeGeneric runs the program where every link's frames enter the kernel's network stack.
	ModeGeneric
)

// String returns the mode's name.
func (m Mode) String() string {
	switch m {
	case ModeNative:
		return "native"
	case ModeGeneric:
		return "generic"
	}
	return "auto"
}

// Sizes in bytes.
const (
	chunkSize = 4096 // of the packet memory; the kernel takes no larger ones without huge pages
	// lead is left free in front of a frame. Behind the kernel's own 256 bytes, and Ethernet, IPv4 and
	// UDP headers of 42, it puts the payload on a cache line.
	lead       = 22
	kernelLead = 256 // XDP_PACKET_HEADROOM
	frameSize  = chunkSize - kernelLead - lead
)

// Chunks of one endpoint and queue.
const (
	txChunks = 256
	rxSpare  = 96 // beyond the ring: frames that are lent, at most 64, and those not given back yet
)

// Limits and defaults of Config.
const (
	// MaxPacket is the largest packet over IPv4 in bytes, headers of IP and UDP not included.
	MaxPacket = frameSize - 14 - 20 - 8
	// EndpointMemory is the locked memory in bytes that an endpoint takes for each queue with
	// DefaultRing.
	EndpointMemory = (DefaultRing + txChunks + rxSpare) * chunkSize
	// DefaultRing is the default number of frames of a receive ring.
	DefaultRing = 512
	// MaxRing is the largest receive ring.
	MaxRing = 8192
	// DefaultEndpoints is how many endpoints of a process share a link by default.
	DefaultEndpoints = 4
	// MaxEndpoints is the most endpoints of a process that share a link.
	MaxEndpoints = 64
	// MaxQueues is the most queues of a link that an endpoint receives from.
	MaxQueues = 64
)

// Errors about a link that others use. They are wrapped in a *rawudp.LinkError.
var (
	// ErrBusy means that another program, such as one of another process, has the link: a
	// link takes one XDP program, and a queue the sockets of one process.
	ErrBusy = errors.New("another XDP program or socket has the link")
	// ErrFull means that Config.Endpoints of this process use the link already.
	ErrFull = errors.New("no more endpoints on the link")
)

// Config describes an endpoint. The zero Config is a good one. Ring, Endpoints, Queues and Mode are
// those of the first endpoint of the process on the link, whatever later ones say; but a Mode that
// differs from what the link is in is an error.
type Config struct {
	// Interface is the name of the network interface. "" means the one that has the IP
	// address given to Listen.
	Interface string
	// MTU, LinkGrace and NeighbourTimeout are those of rawudp.Config. Packets are never larger than
	// a frame of 3818 bytes takes.
	MTU              int
	LinkGrace        time.Duration
	NeighbourTimeout time.Duration
	// Neighbours are MAC addresses that override the kernel's tables: of peers on the link, or of the
	// gateway to them.
	Neighbours map[netip.Addr]rawudp.MAC
	// Ring is the number of frames of a receive ring, a power of 2. There is one for each queue. 0
	// means DefaultRing.
	Ring int
	// Endpoints is how many endpoints of this process can share the link. Each takes
	// (Ring + 352) * 4 KiB of locked memory for each queue, also before it is opened: EndpointMemory
	// by default. 0 means DefaultEndpoints.
	Endpoints int
	// Queues is the most receive queues to take frames from, beginning with the first. Frames that
	// come in through others are left to the kernel, which drops them. 0 means all, up to MaxQueues.
	Queues int
	// Mode says where the XDP program runs.
	Mode Mode
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
	return fmt.Sprintf("afxdp: Config.%s = %d: %s", e.Field, e.Value, e.Reason)
}

// complete fills in defaults and checks the fields.
func (c Config) complete() (Config, error) {
	if c.Ring == 0 {
		c.Ring = DefaultRing
	}
	if c.Endpoints == 0 {
		c.Endpoints = DefaultEndpoints
	}
	if c.Queues == 0 {
		c.Queues = MaxQueues
	}
	switch {
	case c.Ring < 1 || c.Ring > MaxRing || c.Ring&(c.Ring-1) != 0:
		return c, &ConfigError{"Ring", c.Ring,
			fmt.Sprintf("must be a power of two from 1 to %d frames", MaxRing)}
	case c.Endpoints < 1 || c.Endpoints > MaxEndpoints:
		return c, &ConfigError{"Endpoints", c.Endpoints, fmt.Sprintf("must be 1 to %d", MaxEndpoints)}
	case c.Queues < 1 || c.Queues > MaxQueues:
		return c, &ConfigError{"Queues", c.Queues, fmt.Sprintf("must be 1 to %d", MaxQueues)}
	case c.MTU != 0 && c.MTU < rawudp.MinMTU || c.MTU > 1<<16:
		return c, &ConfigError{"MTU", c.MTU, fmt.Sprintf("must be %d to 65536 bytes", rawudp.MinMTU)}
	case c.Mode > ModeGeneric:
		return c, &ConfigError{"Mode", int(c.Mode),
			"no such mode: must be ModeAuto, ModeNative or ModeGeneric"}
	}
	return c, nil
}
