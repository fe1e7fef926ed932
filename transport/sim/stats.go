package sim

import "fmt"

// NIC returns the counters of a node's output queue towards its switch.
func (n *Network) NIC(id int) (PortStats, error) {
	d, err := n.node(id)
	if err != nil {
		return PortStats{}, err
	}
	return d.nic.snapshot(n.now), nil
}

// HostPort returns the counters of the output queue of the switch towards a node.
func (n *Network) HostPort(id int) (PortStats, error) {
	d, err := n.node(id)
	if err != nil {
		return PortStats{}, err
	}
	return d.down.snapshot(n.now), nil
}

// Uplink returns the counters of one of the parallel links from a rack's switch
// up, and back down to it.
func (n *Network) Uplink(rack, link int) (up, down PortStats, err error) {
	if rack < 0 || rack >= len(n.racks) || link < 0 || link >= len(n.racks[rack].up) {
		return up, down, fmt.Errorf("%w: there is no uplink %d of rack %d", errConfig, link, rack)
	}
	r := n.racks[rack]
	return r.up[link].snapshot(n.now), r.down[link].snapshot(n.now), nil
}

// ResetMaxDepth makes MaxDepth of all queues start from what is queued now, so that
// it can be told for a part of a run.
func (n *Network) ResetMaxDepth() {
	reset := func(p *port) {
		p.drain(n.now)
		p.stats.MaxDepth = p.depth
	}
	for _, d := range n.nodes {
		reset(&d.nic)
		reset(&d.down)
	}
	for _, r := range n.racks {
		for i := range r.up {
			reset(&r.up[i])
			reset(&r.down[i])
		}
	}
}

// snapshot returns the counters with Depth as of now.
func (p *port) snapshot(now Time) PortStats {
	p.drain(now)
	s := p.stats
	s.Depth = p.depth
	return s
}
