package sim

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Time is a point in virtual time. The alias gives it a name outside this module.
type Time = monotime.Time

const (
	// StartTime is the time at which a network starts.
	StartTime = Time(time.Second)
	// Never is a time that does not come.
	Never = monotime.Never
)

// Sizes in bytes of what Ethernet adds to a UDP payload on the wire.
const (
	// EthernetOverhead is preamble 8, Ethernet header 14, check sequence 4, gap
	// 12, IPv4 20 and UDP 8.
	EthernetOverhead = 66
	// EthernetMinWire is the smallest frame, 64, with preamble and gap.
	EthernetMinWire = 84
)

// Defaults that a zero field of Config means.
const (
	DefaultMTU    = 1472 // Ethernet's 1500 bytes without IPv4 and UDP headers
	DefaultRxRing = 4096 // packets; the receive queue of the paper's implementation
)

// Config describes a network. The zero value is a perfect network: no delay,
// infinitely fast links, no faults. Sizes are bytes.
type Config struct {
	// Seed decides everything that is random.
	Seed uint64
	// MTU is the largest packet of an endpoint; 0 means DefaultMTU.
	MTU int
	// RxRing is the receive ring of an endpoint in packets; 0 means DefaultRxRing.
	RxRing int
	// Checksum drops damaged packets at the receiver as UDP's checksum would.
	// Without it they are delivered damaged.
	Checksum bool

	// LinkBitsPerSec is the rate of each node's link, either way; 0 is infinite.
	LinkBitsPerSec int64
	// PropDelay is the time a bit takes from a node to its switch, or back.
	PropDelay time.Duration
	// LoopDelay is the delay between two endpoints of one node.
	LoopDelay time.Duration
	// WireOverhead is added to each packet's size on the wire, then MinWire is
	// the least it may be.
	WireOverhead, MinWire int

	// SwitchLatency is added by each switch on the way.
	SwitchLatency time.Duration
	// CutThrough lets a switch send a packet on before its last bit has come, if
	// the outgoing link is no faster than the incoming one.
	CutThrough bool
	// SwitchBuffer is the buffer shared by the ports of one switch; 0 is unlimited.
	SwitchBuffer int
	// Alpha limits a port to Alpha x the free part of SwitchBuffer; 0 is no limit.
	Alpha float64
	// PortBuffer limits each output port of a switch; 0 is no limit.
	PortBuffer int
	// ECN says when switches mark packets.
	ECN ECN

	// Racks > 1 gives each rack a switch, and all of them one more above.
	Racks int
	// RackOf tells in which rack (from 0) a node is; nil means node modulo Racks.
	RackOf func(node int) int
	// Uplinks is the number of parallel links between a rack's switch and the
	// upper one; 0 means 1.
	Uplinks int
	// UplinkBitsPerSec is the rate of one such link, UplinkPropDelay its delay.
	UplinkBitsPerSec int64
	UplinkPropDelay  time.Duration
	// Spines gives each uplink an upper switch of its own, so that a flow comes down by the uplink of
	// the number by which it goes up: a leaf-spine fabric with Uplinks paths between two racks.
	Spines bool

	// Faults holds from the start, until SetFaults.
	Faults Faults
	// Trace gets one line of text for each event, if not nil. It is slow.
	Trace io.Writer
}

// ECN marks packets by the depth in bytes of the output queue that they join,
// themselves included (RFC 3168; RED as DCQCN configures it). Kmax 0 marks none.
// Below or at Kmin none is marked, above Kmax all are, in between with a
// probability that grows from 0 to Pmax. Kmin = Kmax = K is DCTCP's threshold.
type ECN struct {
	Kmin, Kmax int
	Pmax       float64
}

// CX4 is the eRPC paper's CX4 cluster (NSDI'19, table 1 and section 6): five
// racks, 25 Gbit/s links, five 100 Gbit/s uplinks a rack (2:1 oversubscribed
// with 40 nodes a rack), 12 MB of dynamic buffer a switch, and a round trip of 6
// us across racks for the smallest packets. How the 6 us divide is an estimate.
func CX4(seed uint64) Config {
	const ns = time.Nanosecond
	return Config{
		Seed: seed, MTU: 1024, Checksum: true,
		LinkBitsPerSec: 25e9, PropDelay: 500 * ns, LoopDelay: 500 * ns,
		WireOverhead: EthernetOverhead, MinWire: EthernetMinWire,
		SwitchLatency: 400 * ns, SwitchBuffer: 12 << 20, Alpha: 8,
		Racks: 5, Uplinks: 5, UplinkBitsPerSec: 100e9, UplinkPropDelay: 366 * ns,
	}
}

// errConfig is matched by the errors about what a caller configured.
var errConfig = errors.New("sim: bad configuration")

// complete fills in the defaults and checks the rest.
func (c *Config) complete() error {
	setDefault(&c.MTU, DefaultMTU)
	setDefault(&c.RxRing, DefaultRxRing)
	setDefault(&c.Racks, 1)
	setDefault(&c.Uplinks, 1)
	for _, v := range []int64{c.LinkBitsPerSec, c.UplinkBitsPerSec,
		int64(c.WireOverhead), int64(c.MinWire), int64(c.SwitchBuffer), int64(c.PortBuffer),
		int64(c.RxRing), int64(c.Racks), int64(c.Uplinks), int64(c.ECN.Kmin)} {
		if v < 0 {
			return fmt.Errorf("%w: negative value %d", errConfig, v)
		}
	}
	for _, d := range []time.Duration{
		c.PropDelay, c.LoopDelay, c.SwitchLatency, c.UplinkPropDelay} {
		if d < 0 {
			return fmt.Errorf("%w: negative delay %v", errConfig, d)
		}
	}
	if c.MTU < 1 || c.MTU > maxPacket {
		return fmt.Errorf("%w: MTU %d, want 1 to %d", errConfig, c.MTU, maxPacket)
	}
	if c.ECN.Kmax < c.ECN.Kmin || !isProbability(c.ECN.Pmax) || !(c.Alpha >= 0) {
		return fmt.Errorf("%w: ECN %+v, Alpha %v: Kmax must be at least Kmin, "+
			"Pmax 0 to 1, Alpha not negative", errConfig, c.ECN, c.Alpha)
	}
	return nil
}

func setDefault(v *int, d int) {
	if *v == 0 {
		*v = d
	}
}

func isProbability(p float64) bool { return p >= 0 && p <= 1 }
