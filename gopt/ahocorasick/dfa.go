package ahocorasick

import "errors"

// ErrPattern means an empty pattern.
var ErrPattern = errors.New("ahocorasick: empty pattern")

// match marks a transition to a state in which patterns end.
const match = 1 << 31

// dfa is an automaton: state s goes to next[s<<8|byte].
type dfa struct {
	next []uint32
	ends [][]int // patterns that end in a state
}

// newDFA returns the automaton of patterns.
func newDFA(patterns [][]byte) (*dfa, error) {
	d := &dfa{}
	d.grow()
	for i, p := range patterns {
		if len(p) == 0 {
			return nil, ErrPattern
		}
		s := uint32(0)
		for _, b := range p {
			at := s<<8 | uint32(b)
			if d.next[at] == 0 {
				d.next[at] = d.grow()
			}
			s = d.next[at]
		}
		d.ends[s] = append(d.ends[s], i)
	}
	d.link()
	return d, nil
}

// grow adds a state and returns its number.
func (d *dfa) grow() uint32 {
	d.next = append(d.next, make([]uint32, 256)...)
	d.ends = append(d.ends, nil)
	return uint32(len(d.ends) - 1)
}

// link gives each state, nearest to the root first, the transitions and patterns of the longest
// other beginning of a pattern that it ends with.
func (d *dfa) link() {
	fail := make([]uint32, len(d.ends))
	var queue []uint32
	for b := range uint32(256) {
		if s := d.next[b]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		d.ends[s] = append(d.ends[s], d.ends[fail[s]]...)
		for b := range uint32(256) {
			other := d.next[fail[s]<<8|b]
			if to := d.next[s<<8|b]; to != 0 {
				fail[to] = other
				queue = append(queue, to)
			} else {
				d.next[s<<8|b] = other
			}
		}
	}
	for i, s := range d.next {
		if len(d.ends[s]) > 0 {
			d.next[i] |= match
		}
	}
}
