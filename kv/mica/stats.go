package mica

// Stats counts what a partition did, and what it has.
type Stats struct {
	Items    uint64 // in memory; expired ones too, until they are found
	Bytes    uint64 // that they take, headers included
	Capacity uint64 // bytes for items: what the index leaves
	Index    uint64 // bytes of the index
	Memory   uint64 // all bytes that the partition has from the system
	Huge     bool   // ... in huge pages that were reserved

	Hits, Misses   uint64
	Puts           uint64 // items written
	Deletes        uint64
	Expired        uint64 // found when they were past their time
	Evictions      uint64 // cache: items overwritten by newer ones
	IndexEvictions uint64 // cache: items that lost their place in a full bucket
	Moves          uint64 // cache: items appended anew when they were read
	Fulls          uint64 // store: writes refused
	IndexFulls     uint64 // ... of them with ErrFullIndex
	Extra          uint64 // store: extra buckets in use
}

// BytesPerItem returns the memory of the partition divided by its items, 0 if there are none.
func (s *Stats) BytesPerItem() float64 {
	if s.Items == 0 {
		return 0
	}
	return float64(s.Memory) / float64(s.Items)
}

// Stats returns the counters.
func (p *Partition) Stats() Stats {
	if p.later.n > 0 { // there are no views then
		p.settle()
	}
	return p.stats
}

// Add adds what another partition did and has.
func (s *Stats) Add(o *Stats) {
	sum := [...]struct{ to, from *uint64 }{{&s.Items, &o.Items}, {&s.Bytes, &o.Bytes},
		{&s.Capacity, &o.Capacity}, {&s.Index, &o.Index}, {&s.Memory, &o.Memory},
		{&s.Hits, &o.Hits}, {&s.Misses, &o.Misses}, {&s.Puts, &o.Puts}, {&s.Deletes, &o.Deletes},
		{&s.Expired, &o.Expired}, {&s.Evictions, &o.Evictions},
		{&s.IndexEvictions, &o.IndexEvictions}, {&s.Moves, &o.Moves}, {&s.Fulls, &o.Fulls},
		{&s.IndexFulls, &o.IndexFulls},
		{&s.Extra, &o.Extra}}
	for _, c := range sum {
		*c.to += *c.from
	}
	s.Huge = s.Huge || o.Huge
}
