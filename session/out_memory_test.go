package session

import "testing"

// TestOutKeepsNoMemory: when its packets have left, an Out refers to no message any more: the
// memory may be a caller's.
func TestOutKeepsNoMemory(t *testing.T) {
	ends, _ := linked(2, 1400, false)
	o := NewOut(4, false)
	for round := range 4 {
		for i := range 40 {
			full := make([]byte, ends[0].PerPacket)
			o.trains.add(ends[0].link, len(o.Tx), o.batch)
			o.push(&ends[0].Peer, 0, make([]byte, 24), full)
			ends[1].put(o, uint64(i), "small")
		}
		o.Finish(0)
		if round%2 == 0 {
			o.Keep(3)
		}
		o.Reset()
		for _, list := range [][]Tx{o.Tx[:cap(o.Tx)], o.trains.spare[:cap(o.trains.spare)]} {
			for i := range list {
				if list[i].Data != nil {
					t.Fatalf("round %d: place %d of %d has data", round, i, len(list))
				}
			}
		}
	}
}
