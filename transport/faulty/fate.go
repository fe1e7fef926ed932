package faulty

import (
	"math/rand/v2"
	"time"
)

// fate is the outcome of the draws for one packet.
type fate struct {
	lose, dup, corrupt bool
	reorder            int           // later packets that overtake; 0 means none
	delay              time.Duration // 0 means none
	bits               uint64        // chooses the bits to flip
}

// clean reports whether the packet just passes.
func (x *fate) clean() bool {
	return !x.lose && !x.dup && !x.corrupt && x.reorder == 0 && x.delay == 0
}

// dice draws fates for one direction.
type dice struct {
	f   Faults
	rng *rand.Rand
}

func newDice(f Faults, seed, direction uint64) dice {
	return dice{f: f.withDefaults(), rng: rand.New(rand.NewPCG(seed, direction))}
}

// next draws the fate of one packet. It always takes seven numbers, so that the
// n-th packet's luck in one fault does not depend on the other faults.
func (d *dice) next() fate {
	var x fate
	x.lose = d.rng.Float64() < d.f.Loss
	x.dup = d.rng.Float64() < d.f.Dup
	reorder := d.rng.Float64() < d.f.Reorder
	by := 1 + int(d.rng.Uint64()>>33)%d.f.ReorderBy
	x.corrupt = d.rng.Float64() < d.f.Corrupt
	x.bits = d.rng.Uint64()
	x.delay = d.f.Delay + time.Duration(d.rng.Float64()*float64(d.f.Jitter))
	if reorder {
		x.reorder = by
	}
	return x
}

// flip flips one to three bits of p. The places are different, so that they do
// not cancel out; a packet of one byte has room for all three.
func flip(p []byte, bits uint64) {
	if len(p) == 0 {
		return
	}
	total := uint64(len(p)) * 8
	at, step := bits>>8%total, 1+bits>>40%(total/4+1)
	for range 1 + bits%3 {
		p[at/8] ^= 1 << (at % 8)
		at = (at + step) % total
	}
}
