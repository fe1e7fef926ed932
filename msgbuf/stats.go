package msgbuf

// Stats describes a pool at one moment.
type Stats struct {
	InUse         int   // buffers in use
	UsedBytes     int64 // memory of the buffers in use, headers included
	ReservedBytes int64 // memory taken from the system
	HugeBytes     int64 // of that in hugepages
	Regions       int   // pieces that ReservedBytes consists of, each registered once
	DoubleFrees   uint64
	// all calls by somebody who did not own the buffer, double frees included
	Misuses uint64
	Classes []ClassStats // those with buffers, smallest first
}

// ClassStats describes the buffers of one size.
type ClassStats struct {
	MaxSize   int // bytes of data at most
	ChunkSize int // bytes of memory
	InUse     int
	Free      int // ready for the next Alloc
}

// Reserved returns the memory in bytes that the pool has taken from the system.
// Unlike Stats it costs nothing.
func (p *Pool) Reserved() int64 { return p.store.reserved }

// Stats returns the state of the pool. It allocates.
func (p *Pool) Stats() Stats {
	if p.cfg.Shared {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	st := Stats{
		ReservedBytes: p.store.reserved,
		HugeBytes:     p.store.huge,
		Regions:       p.store.mapped,
		DoubleFrees:   p.doubleFrees.Load(),
		Misuses:       p.misuses.Load(),
	}
	for i := range p.classes {
		c := &p.classes[i]
		if c.inUse == 0 && c.free == 0 {
			continue
		}
		st.InUse += c.inUse
		st.UsedBytes += int64(c.inUse) * int64(c.chunk)
		st.Classes = append(st.Classes, ClassStats{int(c.data), int(c.chunk), c.inUse, c.free})
	}
	return st
}
