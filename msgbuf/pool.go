package msgbuf

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/wire"
)

// DefaultMaxMessage is the largest message in bytes if the Config does not say.
const DefaultMaxMessage = 8 << 20

// Config describes a pool. The zero value is a good one.
type Config struct {
	// MaxMessage is the largest message in bytes, up to wire.MaxMsgSize.
	// 0 means DefaultMaxMessage.
	MaxMessage int
	// Hugepages asks for hugepages, as far as some are free.
	Hugepages bool
	// Register, if not nil, is called with every piece of memory before its first use
	// and returns the key that Buffer.Key then reports. Its error ends the Alloc. Memory with the key
	// 0 may move and grow without a word; see Pool.Grow.
	Register func(mem []byte) (key uint32, err error)
	// Unregister is told before the memory is given back. It goes with Register.
	// Both are called inside calls of the pool and must not call it.
	Unregister func(mem []byte, key uint32)
	// Shared makes all methods of the pool and Buffer.Free safe from any goroutine.
	// Otherwise one goroutine at a time uses the pool and frees its buffers, until Close.
	Shared bool
	// Limit is the largest number of bytes that the pool takes from the system,
	// 0 for no limit.
	Limit int64
	// Budget, if not nil, bounds that for all pools that have it.
	Budget *Budget
}

func (c *Config) check() error {
	switch {
	case c.MaxMessage < 0:
		return &ConfigError{"MaxMessage", "must not be negative"}
	case c.MaxMessage > wire.MaxMsgSize:
		return &ConfigError{"MaxMessage", fmt.Sprintf("must be at most %d bytes", wire.MaxMsgSize)}
	case c.Limit < 0:
		return &ConfigError{"Limit", "must not be negative: 0 is no limit"}
	case c.Register != nil && c.Unregister == nil:
		return &ConfigError{"Unregister", "is missing, but Register is set: set both or none"}
	case c.Register == nil && c.Unregister != nil:
		return &ConfigError{"Register", "is missing, but Unregister is set: set both or none"}
	}
	return nil
}

// Pool hands out buffers. A pool that is not closed keeps its memory for ever.
type Pool struct {
	max      int  // largest size, -1 when closed
	last     uint // index of the last class
	classes  [maxClasses]class
	wraps    *Buffer // free ones of wrap
	headless int     // those in use that have no headers, which would count
	outside  region  // what they have for one: no memory
	cfg      Config
	mu       sync.Mutex // held by all methods if cfg.Shared

	doubleFrees atomic.Uint64
	misuses     atomic.Uint64
	store       store
}

// NewPool returns an empty pool, or a *ConfigError.
func NewPool(cfg Config) (*Pool, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = DefaultMaxMessage
	}
	p := &Pool{max: cfg.MaxMessage, cfg: cfg}
	p.last = uint(makeClasses(&p.classes, cfg.MaxMessage) - 1)
	p.store.init(p)
	p.outside.pool = p
	return p, nil
}

// Alloc returns a buffer of size n bytes that belongs to the application until
// Free. Its contents are undefined: they may be those of an earlier message. Errors
// match ErrTooLarge, ErrNoMemory or ErrClosed, or are those of Config.Register.
func (p *Pool) Alloc(n int) (*Buffer, error) {
	if p.cfg.Shared {
		return p.allocShared(n)
	}
	return p.alloc(n)
}

func (p *Pool) allocShared(n int) (*Buffer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alloc(n)
}

// alloc is Alloc under the lock.
func (p *Pool) alloc(n int) (*Buffer, error) {
	if n < 0 || n > p.max {
		return nil, p.badSize()
	}
	c := &p.classes[p.classOf(n)%maxClasses]
	b := c.list
	if b == nil {
		var err error
		if b, err = p.refill(c); err != nil {
			return nil, err
		}
	} else {
		c.list = b.next
		c.free--
	}
	if invariants.Enabled {
		b = b.renew()
	}
	b.owner = OwnerApp
	b.end = int(b.data) + n
	b.next = b
	b.region.used++
	c.inUse++
	return b, nil
}

func (p *Pool) badSize() error {
	if p.max < 0 {
		return ErrClosed
	}
	return ErrTooLarge
}

func (p *Pool) freeShared(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(b)
}

// free is Buffer.Free under the lock.
func (p *Pool) free(b *Buffer) {
	if b.owner != OwnerApp {
		p.badFree(b)
		return
	}
	if b.Wrapped() {
		p.unwrap(b)
		return
	}
	if invariants.Enabled {
		b.poison()
	}
	c := &p.classes[b.class%maxClasses]
	b.owner = OwnerNone
	b.region.used--
	c.inUse--
	if c.large {
		p.store.keep(b)
	} else {
		b.next = c.list
		c.list = b
		c.free++
	}
	if p.max < 0 {
		p.store.trim() // the last users of a closed pool free its memory
	}
}

func (p *Pool) badFree(b *Buffer) {
	if b.owner == OwnerNone {
		p.doubleFrees.Add(1)
	}
	b.misused("Free")
}

// refill returns a free buffer of class c, which has none in its list.
func (p *Pool) refill(c *class) (*Buffer, error) {
	if c.large {
		return p.store.large(c)
	}
	if err := p.store.carve(c); err != nil {
		return nil, err
	}
	b := c.list
	c.list = b.next
	c.free--
	return b, nil
}

// Footprint returns the bytes of memory that Alloc(n) takes, headers included; 0 if it takes
// no such n. It is safe in any goroutine.
func (p *Pool) Footprint(n int) int {
	if n < 0 || n > p.cfg.MaxMessage {
		return 0
	}
	return int(p.classes[p.classOf(n)%maxClasses].chunk)
}

// Grow makes a buffer of the pool one that Alloc(n) could have given, with the same message in it,
// and reports true if that needs no copy: the system moves the memory of large buffers. Slices of
// the old memory must not be used any more. Else it reports false, and nothing has changed.
func (p *Pool) Grow(b *Buffer, n int) bool {
	if p.cfg.Shared {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	if n < b.Size() || n > p.max || b.Wrapped() {
		return false
	}
	c := &p.classes[p.classOf(n)%maxClasses]
	old := &p.classes[b.class%maxClasses]
	if !old.large || c == old || !p.store.grow(b, c) {
		return false
	}
	old.inUse--
	c.inUse++
	return true
}

// Shrink returns a buffer of size n, which is not more than fits in b: a smaller one in place of b
// if there is one that takes less memory, else b itself. The caller owns b, of this pool.
func (p *Pool) Shrink(b *Buffer, n int) *Buffer {
	if p.Footprint(n) < b.Footprint() {
		if small, err := p.Alloc(n); err == nil {
			b.Free()
			return small
		}
	}
	b.SetSize(n)
	return b
}

// Trim returns to the system all memory in which no buffer is in use.
func (p *Pool) Trim() {
	if p.cfg.Shared {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	p.store.trim()
}

// Close frees the memory; Alloc fails from now on. If buffers are in use it returns
// a *LeakError, which matches ErrLeak; they stay usable, and their memory goes when
// they are freed, by any goroutines. Closing again tells whether buffers are still in use.
func (p *Pool) Close() error {
	if p.cfg.Shared {
		p.mu.Lock()
		defer p.mu.Unlock()
	} else {
		p.cfg.Shared = true // whoever has a buffer frees it
	}
	p.max = -1
	p.store.trim()
	leaked := p.headless
	for i := range p.classes {
		leaked += p.classes[i].inUse
	}
	if leaked != 0 {
		return &LeakError{leaked}
	}
	return nil
}

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
	regions  []*region    // those of the small classes
	current  *region      // the one with room left, or nil
	reserved atomic.Int64 // bytes from the system
	huge     int64        // of these in hugepages
	mapped   int          // regions, those of large buffers included

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
		s.pool.cfg.Budget.Give(size)
		return nil, fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	s.pool.cfg.Budget.Give(size - len(r.mem)) // the budget counts the bytes that there are
	if f := s.pool.cfg.Register; f != nil {
		if r.key, err = f(r.mem); err != nil {
			s.pool.cfg.Budget.Give(len(r.mem))
			s.unmap(r)
			return nil, fmt.Errorf("msgbuf: registering %d bytes: %w", size, err)
		}
	}
	s.mapped++
	s.reserved.Add(int64(len(r.mem)))
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
	return (c.Limit == 0 || s.reserved.Load()+int64(size) <= c.Limit) && c.Budget.Take(size)
}

// drop unregisters and unmaps a region without users.
func (s *store) drop(r *region) {
	s.mapped--
	s.reserved.Add(-int64(len(r.mem)))
	s.pool.cfg.Budget.Give(len(r.mem))
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
	if s.pool.cfg.Hugepages || chunk > bigChunk || s.reserved.Load() >= bigRegion {
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
	b.data = wire.HeaderSize
	b.hdrs = int32(headersAt(int(c.data)) - wire.HeaderSize)
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

// grow makes the region of the large buffer b one for class c, and b the buffer of that.
func (s *store) grow(b *Buffer, c *class) bool {
	r, size := b.region, pages(int(c.chunk))
	more := size - len(r.mem)
	if r.huge || r.key != 0 || more <= 0 || !s.room(more) { // who registered it knows where it is
		return false
	}
	mem, ok := hugemem.Grow(r.mem, size)
	if !ok {
		s.pool.cfg.Budget.Give(more)
		return false
	}
	r.mem = mem
	s.reserved.Add(int64(more))
	s.bind(b, c, r, 0)
	return true
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
	b.end = int(b.data)
	b.max = 0
	b.next = nil
}

// pages rounds up to whole pages.
func pages(n int) int { return (n + hugemem.PageSize - 1) &^ (hugemem.PageSize - 1) }

const (
	lineSize   = 64
	largeChunk = 1 << 20 // chunks of this size and more are mapped one by one
	maxClasses = 48
	// lineClasses is the number of classes that are whole cache lines: 1 to 4.
	lineClasses = 4
	// stepBits: from 1<<stepBits bytes of data on there are two classes per doubling.
	stepBits = 8
)

// class is one size of buffers. Chunks are cut for the data sizes that programs
// use, powers of two, plus their headers, so such a message wastes little; and their
// odd lengths spread neighbouring headers over the sets of the cache.
type class struct {
	list  *Buffer // free buffers, last freed first; none in a large class
	data  int32   // bytes of data at most
	chunk int32   // bytes of memory, a multiple of lineSize
	large bool
	inUse int
	free  int
}

// headersAt returns the offset of the second header in a chunk for n bytes of data.
func headersAt(n int) int { return (wire.HeaderSize + n + 7) &^ 7 }

// chunkNeed returns the bytes of memory that n bytes of data and their headers take.
func chunkNeed(n int) int { return headersAt(n) + laterHeaders(n) }

// laterHeaders returns the bytes of the headers of all packets but the first, of n bytes of data.
func laterHeaders(n int) int {
	if n <= MinDataPerPacket {
		return 0
	}
	return (n - 1) / MinDataPerPacket * wire.HeaderSize
}

// newClass returns the class for messages of target bytes: whole lines or pages,
// with the rest of the last one given to the data.
func newClass(target, maxMessage int) class {
	target = min(target, maxMessage)
	unit := lineSize
	large := chunkNeed(target) >= largeChunk
	if large {
		unit = hugemem.PageSize
	}
	chunk := (chunkNeed(target) + unit - 1) / unit * unit
	data := target + chunk - chunkNeed(target)
	for chunkNeed(data) > chunk {
		data--
	}
	return class{data: int32(min(data, maxMessage)), chunk: int32(chunk), large: large}
}

// makeClasses fills in the classes up to maxMessage and returns how many.
func makeClasses(all *[maxClasses]class, maxMessage int) int {
	n := 0
	add := func(target int) bool { // false: that was the last
		all[n] = newClass(target, maxMessage)
		n++
		return int(all[n-1].data) < maxMessage
	}
	for i := 1; i <= lineClasses; i++ {
		if !add(i*lineSize - wire.HeaderSize) {
			return n
		}
	}
	for size := 1 << stepBits; add(size) && add(size+size/2); size *= 2 {
	}
	return n
}

// classOf returns the index of the smallest class for n bytes of data, which the
// caller has compared with the largest size.
func (p *Pool) classOf(n int) uint {
	if n <= lineClasses*lineSize-wire.HeaderSize {
		return min(uint(n+wire.HeaderSize-1)/lineSize, p.last)
	}
	i := uint(lineClasses)
	if n > 1<<stepBits {
		k := uint(bits.Len32(uint32(n - 1))) // 1<<(k-1) < n <= 1<<k
		i += 2 * (k - stepBits)
		if n <= 3<<(k-2) {
			i--
		}
	}
	i = min(i, p.last)
	// The class below may have grown beyond its target.
	if n <= int(p.classes[(i-1)%maxClasses].data) {
		i--
	}
	return i
}

// Budget bounds the memory that several pools take from the system together. Pools take it in
// regions, so that it is seldom touched. All methods are safe in any goroutine.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Limit returns the bytes that all pools may take.
func (b *Budget) Limit() int64 { return b.limit }

// Used returns the bytes that all pools have taken.
func (b *Budget) Used() int64 { return b.used.Load() }

// Take takes n bytes if they are left. A nil budget has no end.
func (b *Budget) Take(n int) bool {
	if b == nil || b.used.Add(int64(n)) <= b.limit {
		return true
	}
	b.Give(n)
	return false
}

// Give gives n bytes back.
func (b *Budget) Give(n int) {
	if b != nil {
		b.used.Add(-int64(n))
	}
}

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
// Unlike Stats it costs nothing, and is safe in any goroutine.
func (p *Pool) Reserved() int64 { return p.store.reserved.Load() }

// Stats returns the state of the pool. It allocates.
func (p *Pool) Stats() Stats {
	if p.cfg.Shared {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	st := Stats{
		ReservedBytes: p.store.reserved.Load(),
		HugeBytes:     p.store.huge,
		Regions:       p.store.mapped,
		DoubleFrees:   p.doubleFrees.Load(),
		Misuses:       p.misuses.Load(),
		InUse:         p.headless,
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
