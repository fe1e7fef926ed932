package ahocorasick

import (
	"cmp"
	"slices"
)

// Set is automata, numbered from 0. Any number of goroutines may use it.
type Set struct{ dfas []*dfa }

// New returns a Set with an automaton for each list of patterns. The error is ErrPattern.
func New(lists [][][]byte) (*Set, error) {
	s := &Set{}
	for _, patterns := range lists {
		d, err := newDFA(patterns)
		if err != nil {
			return nil, err
		}
		s.dfas = append(s.dfas, d)
	}
	return s, nil
}

// States returns how many states all automata have.
func (s *Set) States() (n int) {
	for _, d := range s.dfas {
		n += len(d.ends)
	}
	return n
}

// Packet is data, and the number of the automaton that it is for, which the Set must have.
type Packet struct {
	DFA  int
	Data []byte
}

// Found is called for each place where a pattern of its automaton ends in a packet: by the number
// of the packet, that of the pattern, and the number of bytes up to its end.
type Found func(packet, pattern, end int)

// Scan goes through one packet after the other.
func (s *Set) Scan(packets []Packet, found Found) {
	for i := range packets {
		d := s.dfas[packets[i].DFA]
		state := uint32(0)
		for at, b := range packets[i].Data {
			if state = d.next[state<<8|uint32(b)]; state&match != 0 {
				state = d.tell(state, i, at+1, found)
			}
		}
	}
}

// tell reports the patterns that end in a state, and returns its number.
func (d *dfa) tell(state uint32, packet, end int, found Found) uint32 {
	state &^= match
	for _, p := range d.ends[state] {
		found(packet, p, end)
	}
	return state
}

// lanes is how many packets are interleaved.
const lanes = 8

// ScanBatch finds what Scan finds, in the same order within a packet, but the packets in another
// order. A batch of thousands is best: the paper has 8192. It sorts numbers of packets in scratch,
// which it returns for the next call, and leaves the packets where they are.
func (s *Set) ScanBatch(packets []Packet, scratch []int32, found Found) []int32 {
	list := scratch[:0]
	for i := range packets {
		list = append(list, int32(i))
	}
	slices.SortFunc(list, func(a, b int32) int {
		x, y := &packets[a], &packets[b]
		if x.DFA != y.DFA {
			return cmp.Compare(x.DFA, y.DFA)
		}
		return cmp.Compare(len(x.Data), len(y.Data))
	})
	for rest := list; len(rest) > 0; {
		dfa := packets[rest[0]].DFA
		n := 1
		for n < min(lanes, len(rest)) && packets[rest[n]].DFA == dfa {
			n++
		}
		s.dfas[dfa].group(packets, rest[:n], found)
		rest = rest[n:]
	}
	return list
}

// group goes through up to lanes packets of one automaton together, the shortest first.
func (d *dfa) group(packets []Packet, list []int32, found Found) {
	var states [lanes]uint32
	var data [lanes][]byte
	for i, p := range list {
		data[i] = packets[p].Data
	}
	at := 0
	for first := range list { // the packets from first on are longer than at
		for end := len(data[first]); at < end; at++ {
			for i := first; i < len(list); i++ {
				state := d.next[states[i]<<8|uint32(data[i][at])]
				if state&match != 0 {
					state = d.tell(state, int(list[i]), at+1, found)
				}
				states[i] = state
			}
		}
	}
}
