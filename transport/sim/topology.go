package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/userspace-rpc/erpc/transport"
)

// node is one machine: a link to its switch, and endpoints.
type node struct {
	id    int
	rack  int
	nic   port // towards the switch
	down  port // from the switch
	binds map[uint32]*binding
	cut   []bool    // by destination node: packets there vanish
	paths []*faults // by destination node: faults in place of the network's
}

// binding is the other end of a bound port of a node.
type binding struct {
	ep      *Endpoint
	crashID uint64 // packets sent before this one died with an earlier owner
}

// rack is a switch with its links to the upper ones.
type rack struct {
	sw       fabric
	up, down []port // to and from the upper switches
}

func newRack(c *Config, spines []fabric) *rack {
	r := &rack{sw: fabric{buffer: c.SwitchBuffer, alpha: c.Alpha}}
	if c.Racks == 1 {
		return r
	}
	delay := c.UplinkPropDelay + c.SwitchLatency
	r.up, r.down = make([]port, c.Uplinks), make([]port, c.Uplinks)
	for i := range r.up {
		r.up[i] = port{rate: c.UplinkBitsPerSec, delay: delay, limit: c.PortBuffer}
		r.sw.adopt(&r.up[i])
		r.down[i] = port{rate: c.UplinkBitsPerSec, delay: delay, limit: c.PortBuffer}
		spines[i%len(spines)].adopt(&r.down[i])
	}
	return r
}

func (f *fabric) adopt(p *port) {
	p.owner = f
	f.ports = append(f.ports, p)
}

// maxNodes keeps node numbers in check: tables are as long as the highest.
const maxNodes = 1 << 20

// node returns the node of that number, making it and those below if need be.
func (n *Network) node(id int) (*node, error) {
	if id < 0 || id >= maxNodes {
		return nil, fmt.Errorf("%w: node %d, must be 0 to %d", errConfig, id, maxNodes-1)
	}
	for len(n.nodes) <= id {
		c := &n.cfg
		d := &node{id: len(n.nodes), binds: make(map[uint32]*binding)}
		if c.RackOf != nil {
			d.rack = c.RackOf(d.id)
		} else {
			d.rack = d.id % c.Racks
		}
		if d.rack < 0 || d.rack >= c.Racks {
			return nil, fmt.Errorf("%w: RackOf puts node %d in rack %d, must be 0 to %d",
				errConfig, d.id, d.rack, c.Racks-1)
		}
		d.nic = port{rate: c.LinkBitsPerSec, delay: c.PropDelay}
		d.down = port{rate: c.LinkBitsPerSec, delay: c.PropDelay + c.SwitchLatency, limit: c.PortBuffer}
		n.racks[d.rack].sw.adopt(&d.down)
		n.nodes = append(n.nodes, d)
	}
	return n.nodes[id], nil
}

// next returns the output queue that p joins next, nil at its destination.
func (n *Network) next(p *packet) *port {
	if p.src == p.dst {
		return nil
	}
	if p.src.rack == p.dst.rack {
		if p.hop == 1 {
			return &p.dst.down
		}
		return nil
	}
	switch p.hop {
	case 1:
		r := n.racks[p.src.rack]
		return &r.up[p.flow%uint32(len(r.up))]
	case 2:
		r := n.racks[p.dst.rack]
		if n.cfg.Spines {
			return &r.down[p.flow%uint32(len(r.down))]
		}
		return &r.down[p.flow>>16%uint32(len(r.down))]
	case 3:
		return &p.dst.down
	}
	return nil
}

// UplinkTo returns the number of the uplink by which packets from an endpoint to an address leave
// its rack, with Spines the path that they take; -1 if they stay in the rack. The ports of both
// ends are in it: another port may be another path.
func (e *Endpoint) UplinkTo(to transport.Addr) int {
	n := e.net
	dst := n.nodeOf(&to)
	if dst == nil || dst.rack == e.node.rack {
		return -1
	}
	return int(n.flowHash(e, dst, to.Port) % uint32(len(n.racks[e.node.rack].up)))
}

// nodeAddr is the address of a node: fd00::node (RFC 4193).
func nodeAddr(id int, port uint32) transport.Addr {
	a := transport.Addr{Port: port}
	a.IP[0] = 0xFD
	binary.BigEndian.PutUint32(a.IP[12:], uint32(id))
	return a
}

// nodeOf returns the node that an address names, nil if there is none.
func (n *Network) nodeOf(a *transport.Addr) *node {
	id := binary.BigEndian.Uint32(a.IP[12:])
	if !isSimAddr(a) || uint64(id) >= uint64(len(n.nodes)) {
		return nil
	}
	return n.nodes[id]
}

func isSimAddr(a *transport.Addr) bool {
	const prefix = 0xFD << 56
	return binary.BigEndian.Uint64(a.IP[:]) == prefix && binary.BigEndian.Uint32(a.IP[8:]) == 0 &&
		a.Port-1 < 65535 && a.Scope == 0
}

// flowHash mixes the ends of a flow with the seed, as a switch's ECMP hash does.
func (n *Network) flowHash(e *Endpoint, dst *node, port uint32) uint32 {
	h := n.flowSeed
	h = mix(h, uint64(e.node.id)<<32|uint64(e.addr.Port))
	h = mix(h, uint64(dst.id)<<32|uint64(port))
	return uint32(h)
}
