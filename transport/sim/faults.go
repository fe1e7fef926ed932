package sim

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"
)

// Faults says what happens to packets on their way. Probabilities are 0 to 1 and
// apply to each packet by itself. A packet meets its fate when it leaves its node: a
// lost packet has used the node's link, no other.
type Faults struct {
	// Loss is the probability that a packet vanishes.
	Loss float64
	// Duplicate is the probability that a packet arrives twice; delays and damage
	// are drawn for each copy.
	Duplicate float64
	// Corrupt is the probability that 1 to 3 random bits of a packet are flipped.
	Corrupt float64
	// Reorder is the probability that a packet is held for an extra time of 1 to
	// ReorderDelay, so that later ones overtake it.
	Reorder      float64
	ReorderDelay time.Duration
	// Delay is added to every packet.
	Delay time.Duration
	// Jitter is the most of a uniform random delay of every packet. Packets that
	// are closer together than that may overtake each other.
	Jitter time.Duration
}

// chance is a probability in units of 2^-63.
type chance uint64

func chanceOf(p float64) chance { return chance(p * (1 << 63)) }

// faults is Faults made ready for use.
type faults struct {
	loss, duplicate, corrupt, reorder chance
	reorderDelay, delay, jitter       time.Duration
	any                               bool
}

func (f *Faults) compile() (*faults, error) {
	for _, p := range []float64{f.Loss, f.Duplicate, f.Corrupt, f.Reorder} {
		if !isProbability(p) {
			return nil, fmt.Errorf("%w: probability %v, must be 0 to 1", errConfig, p)
		}
	}
	if f.Delay < 0 || f.Jitter < 0 || f.ReorderDelay < 0 || f.Reorder > 0 && f.ReorderDelay == 0 {
		return nil, fmt.Errorf("%w: %+v: no delay may be negative, and Reorder "+
			"needs a ReorderDelay", errConfig, *f)
	}
	return &faults{chanceOf(f.Loss), chanceOf(f.Duplicate), chanceOf(f.Corrupt), chanceOf(f.Reorder),
		f.ReorderDelay, f.Delay, f.Jitter, *f != Faults{}}, nil
}

// SetFaults sets the faults of all paths that have none of their own, for the
// packets sent from now on.
func (n *Network) SetFaults(f Faults) error {
	c, err := f.compile()
	if err == nil {
		n.faults = c
	}
	return err
}

// SetPathFaults sets the faults of packets from one node to another, in place of
// the network's; nil makes the network's hold again.
func (n *Network) SetPathFaults(from, to int, f *Faults) error {
	a, _, err := n.pair(from, to)
	if err != nil {
		return err
	}
	for len(a.paths) <= to {
		a.paths = append(a.paths, nil)
	}
	if f == nil {
		a.paths[to] = nil
		return nil
	}
	c, err := f.compile()
	if err == nil {
		a.paths[to] = c
	}
	return err
}

// SetLinkBits changes the rate of a node's link, both ways, for the packets that
// join its queues from now on. 0 makes it infinitely fast.
func (n *Network) SetLinkBits(id int, bitsPerSec int64) error {
	d, err := n.node(id)
	if err != nil {
		return err
	}
	if bitsPerSec < 0 {
		return fmt.Errorf("%w: rate %d, must not be negative", errConfig, bitsPerSec)
	}
	d.nic.setRate(bitsPerSec)
	d.down.setRate(bitsPerSec)
	return nil
}

// Cut makes packets from any node of one set to any of the other vanish, those
// on their way included. The way back stays as it is.
func (n *Network) Cut(from, to []int) error {
	for _, i := range from {
		for _, j := range to {
			a, _, err := n.pair(i, j)
			if err != nil {
				return err
			}
			for len(a.cut) <= j {
				a.cut = append(a.cut, false)
			}
			a.cut[j] = i != j // a node always reaches itself
		}
	}
	n.cuts = true
	return nil
}

// Partition cuts every group of nodes off from every other, both ways. Nodes
// that are in no group reach all.
func (n *Network) Partition(groups ...[]int) error {
	for i := range groups {
		for j := range groups {
			if i == j {
				continue
			}
			if err := n.Cut(groups[i], groups[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Heal ends all cuts.
func (n *Network) Heal() {
	for _, d := range n.nodes {
		d.cut = nil
	}
	n.cuts = false
}

// pair returns two nodes.
func (n *Network) pair(from, to int) (a, b *node, err error) {
	if a, err = n.node(from); err != nil {
		return nil, nil, err
	}
	b, err = n.node(to)
	return a, b, err
}

// isCut reports whether packets from a to b vanish.
func (n *Network) isCut(a, b *node) bool {
	return n.cuts && b.id < len(a.cut) && a.cut[b.id]
}

// faultsOf returns the faults on the way from a to b.
func (n *Network) faultsOf(a, b *node) *faults {
	if b.id < len(a.paths) && a.paths[b.id] != nil {
		return a.paths[b.id]
	}
	return n.faults
}

// suffer decides the fate of a packet that reaches its first hop at time t.
func (n *Network) suffer(i uint32, p *packet, f *faults, t Time) {
	if n.random.hit(f.loss) {
		n.stats.Lost++
		n.notePacket(trLost, p)
		n.pool.put(i)
		return
	}
	if n.random.hit(f.duplicate) {
		j, q := n.pool.get(len(p.buf))
		buf := q.buf
		*q = *p
		q.buf = buf
		copy(q.buf, p.buf)
		q.id = n.newID()
		n.stats.Duplicated++
		n.notePacket(trCopy, q)
		n.strike(q, f, t, j)
	}
	n.strike(p, f, t, i)
}

// strike damages and delays one copy and sends it on its way.
func (n *Network) strike(p *packet, f *faults, t Time, i uint32) {
	r := &n.random
	if len(p.buf) > 0 && r.hit(f.corrupt) {
		n.damage(p)
	}
	t = t.Add(f.delay)
	if f.jitter > 0 {
		t = t.Add(time.Duration(r.below(uint64(f.jitter) + 1)))
	}
	if r.hit(f.reorder) {
		t = t.Add(1 + time.Duration(r.below(uint64(f.reorderDelay))))
		n.stats.Reordered++
	}
	n.forward(i, p, t)
}

// damage flips 1 to 3 different bits.
func (n *Network) damage(p *packet) {
	size := uint64(len(p.buf)) * 8
	first := n.random.below(size)
	p.buf[first/8] ^= 1 << (first % 8)
	for range n.random.below(3) {
		// Bits at other places than the first, so that the damage never undoes itself.
		if b := n.random.below(size); b != first {
			p.buf[b/8] ^= 1 << (b % 8)
		}
	}
	p.damaged = true
	n.stats.Corrupted++
	n.hash = mix(n.hash, first)
}

// source is the random source of the network's faults.
type source struct{ pcg rand.PCG }

// hit reports true with probability c, and draws nothing for what never happens.
func (s *source) hit(c chance) bool {
	return c != 0 && s.pcg.Uint64()>>1 < uint64(c)
}

// below returns a number from 0 to n-1. Its bias, n/2^64, is of no concern.
func (s *source) below(n uint64) uint64 {
	hi, _ := bits.Mul64(s.pcg.Uint64(), n)
	return hi
}
