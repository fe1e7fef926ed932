package msgbuf

import (
	"fmt"

	"github.com/userspace-rpc/erpc/internal/hugemem"
)

const (
	smallRegion = 256 << 10        // size of the first regions in bytes
	bigRegion   = hugemem.HugeSize // size of the later ones, and of hugepages
	slabBytes   = 64 << 10         // as much of a region is cut into chunks at once
	bigChunk    = smallRegion / 8  // larger chunks want big regions
	keepLarge   = 16               // free large buffers kept at most
)

// region is a piece of memory from the system, registered as a whole.
type region struct {
	pool  *Pool
	mem   []byte
	key   uint32
	huge  bool
	used  int // buffers in use
	carve int // bytes cut into chunks so far
}

// store is the slow half of a pool: it gets memory from the system, cuts it into
// chunks and gives it back.
type store struct {
	pool     *Pool
	regions  []*region // those of the small classes
	current  *region   // the one with room left, or nil
	reserved int64     // bytes from the system
	huge     int64     // of these in hugepages
	mapped   int       // regions, those of large buffers included

	// Free large buffers, last freed last. So few are kept, and of all classes
	// together, that memory goes back to the system soon after large messages.
	kept      [keepLarge]*Buffer
	numKept   int
	keptBytes int64
	keepBytes int64 // bound of keptBytes: two of the largest
}

func (s *store) init(p *Pool) {
	s.pool = p
	s.keepBytes = 2 * int64(p.classes[p.last].chunk)
}

// newRegion maps and registers size bytes.
func (s *store) newRegion(size int, huge bool) (*region, error) {
	if !s.room(size) {
		return nil, ErrNoMemory
	}
	r := &region{pool: s.pool}
	var err error
	if huge {
		r.mem, r.huge, err = hugemem.Alloc(size)
	} else {
		r.mem, err = hugemem.AllocPlain(size)
	}
	if err != nil {
		s.pool.cfg.Budget.give(size)
		return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	s.pool.cfg.Budget.give(size - len(r.mem)) // the budget counts the bytes that there are
	if f := s.pool.cfg.Register; f != nil {
		if r.key, err = f(r.mem); err != nil {
			s.pool.cfg.Budget.give(len(r.mem))
			s.unmap(r)
			return nil, fmt.Errorf("msgbuf: registering %d bytes: %w", size, err)
		}
	}
	s.mapped++
	s.reserved += int64(len(r.mem))
	if r.huge {
		s.huge += int64(len(r.mem))
	}
	return r, nil
}

// room takes size more bytes from the budget, if it and the limit allow that, after trimming if
// need be.
func (s *store) room(size int) bool {
	if s.take(size) {
		return true
	}
	s.trim()
	return s.take(size)
}

func (s *store) take(size int) bool {
	c := &s.pool.cfg
	return (c.Limit == 0 || s.reserved+int64(size) <= c.Limit) && c.Budget.take(size)
}

// drop unregisters and unmaps a region without users.
func (s *store) drop(r *region) {
	s.mapped--
	s.reserved -= int64(len(r.mem))
	s.pool.cfg.Budget.give(len(r.mem))
	if r.huge {
		s.huge -= int64(len(r.mem))
	}
	if f := s.pool.cfg.Unregister; f != nil {
		f(r.mem, r.key)
	}
	s.unmap(r)
}

func (s *store) unmap(r *region) {
	if err := hugemem.Free(r.mem); err != nil {
		panic("msgbuf: region is not a mapping: " + err.Error()) // a bug in this package
	}
	r.mem = nil
}

// carve puts at least one chunk on the free list of the small class c.
func (s *store) carve(c *class) error {
	chunk := int(c.chunk)
	if s.current == nil || len(s.current.mem)-s.current.carve < chunk {
		r, err := s.regionFor(chunk)
		if err != nil {
			return err
		}
		s.regions = append(s.regions, r)
		s.current = r
	}
	r := s.current
	n := min(max(1, slabBytes/chunk), (len(r.mem)-r.carve)/chunk)
	bufs := make([]Buffer, n)
	for i := n - 1; i >= 0; i-- { // so that the list starts with the lowest address
		s.bind(&bufs[i], c, r, r.carve+i*chunk)
		bufs[i].next = c.list
		c.list = &bufs[i]
	}
	c.free += n
	r.carve += n * chunk
	return nil
}

// regionFor returns a new region for chunks of the given size: small while the
// pool is small, and no larger than needed when the limit is near.
func (s *store) regionFor(chunk int) (*region, error) {
	size := smallRegion
	if s.pool.cfg.Hugepages || chunk > bigChunk || s.reserved >= bigRegion {
		size = bigRegion
	}
	r, err := s.newRegion(size, s.pool.cfg.Hugepages)
	if err == nil || s.pool.cfg.Limit == 0 && s.pool.cfg.Budget == nil {
		return r, err
	}
	return s.newRegion(pages(chunk), false)
}

// bind makes b the buffer of the chunk of class c at offset off in r.
func (s *store) bind(b *Buffer, c *class, r *region, off int) {
	end := off + int(c.chunk)
	b.mem = r.mem[off:end:end]
	b.max = c.data
	b.hdrs = int32(headersAt(int(c.data)))
	b.key = r.key
	b.region = r
	for i := range s.pool.classes {
		if c == &s.pool.classes[i] {
			b.class = uint8(i)
		}
	}
}

// large returns a free buffer of the large class c, a kept one if there is one.
func (s *store) large(c *class) (*Buffer, error) {
	for i := s.numKept - 1; i >= 0; i-- {
		if b := s.kept[i]; &s.pool.classes[b.class%maxClasses] == c {
			s.unkeep(i)
			return b, nil
		}
	}
	size, huge := pages(int(c.chunk)), false
	if s.pool.cfg.Hugepages {
		// Rounding up to hugepages may cost a quarter, not more.
		if up := (size + bigRegion - 1) / bigRegion * bigRegion; up <= size+size/4 {
			size, huge = up, true
		}
	}
	r, err := s.newRegion(size, huge)
	if err != nil {
		return nil, err
	}
	b := new(Buffer)
	s.bind(b, c, r, 0)
	return b, nil
}

// keep takes a freed large buffer and unmaps the oldest ones beyond the bound.
func (s *store) keep(b *Buffer) {
	for s.numKept == keepLarge || s.numKept > 0 && s.keptBytes+int64(len(b.mem)) > s.keepBytes {
		s.forget(0)
	}
	s.kept[s.numKept] = b
	s.numKept++
	s.keptBytes += int64(len(b.mem))
	s.pool.classes[b.class%maxClasses].free++
}

// unkeep removes entry i of the kept buffers.
func (s *store) unkeep(i int) {
	b := s.kept[i]
	copy(s.kept[i:s.numKept], s.kept[i+1:s.numKept])
	s.numKept--
	s.kept[s.numKept] = nil
	s.keptBytes -= int64(len(b.mem))
	s.pool.classes[b.class%maxClasses].free--
}

// forget unmaps entry i of the kept buffers.
func (s *store) forget(i int) {
	b := s.kept[i]
	s.unkeep(i)
	r := b.region
	b.retire()
	s.drop(r)
}

// trim gives all regions without users back to the system.
func (s *store) trim() {
	for s.numKept > 0 {
		s.forget(s.numKept - 1)
	}
	idle := 0
	for _, r := range s.regions {
		if r.used == 0 {
			idle++
		}
	}
	if idle == 0 {
		return
	}
	for i := range s.pool.classes {
		s.pool.classes[i].unlist()
	}
	live := s.regions[:0]
	for _, r := range s.regions {
		if r.used != 0 {
			live = append(live, r)
			continue
		}
		if r == s.current {
			s.current = nil
		}
		s.drop(r)
	}
	clear(s.regions[len(live):])
	s.regions = live
}

// unlist takes the buffers of regions without users off the free list.
func (c *class) unlist() {
	at := &c.list
	for b := *at; b != nil; b = *at {
		if b.region.used != 0 {
			at = &b.next
			continue
		}
		*at = b.next
		b.retire()
		c.free--
	}
}

// retire makes the buffer harmless before its memory is unmapped: a late use of
// its pointer finds a freed buffer without memory.
func (b *Buffer) retire() {
	b.mem = nil
	b.size = 0
	b.max = 0
	b.next = nil
}

// pages rounds up to whole pages.
func pages(n int) int { return (n + hugemem.PageSize - 1) &^ (hugemem.PageSize - 1) }
