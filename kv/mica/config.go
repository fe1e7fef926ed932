package mica

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"unsafe"

	"github.com/userspace-rpc/erpc/internal/hugemem"
)

// Limits of items in bytes.
const (
	MinKey   = 1
	MaxKey   = 255
	MaxValue = 1 << 20
)

// What is full in a store that refuses a write: both are ErrFull, and nothing has changed.
var (
	// ErrFullItems means that the memory has no room for the item, or for a bucket that is to have
	// its place.
	ErrFullItems = fmt.Errorf("%w: no memory for the item", ErrFull)
	// ErrFullIndex means that memory is left, and the index has no place for the key: the items are
	// much smaller than Config.ItemSize says.
	ErrFullIndex = fmt.Errorf("%w: no place in the index: ItemSize is too large", ErrFull)
)

var errNoReaders = fmt.Errorf("%w: Readers is not set", ErrConfig)

// MaxPartitions is how many partitions a server can have.
const MaxPartitions = 1 << 16

// Errors of partitions.
var (
	ErrConfig   = errors.New("mica: bad config")
	ErrKey      = errors.New("mica: a key has 1 to 255 bytes")
	ErrValue    = errors.New("mica: a value has at most 1 MiB")
	ErrTooLarge = errors.New("mica: item larger than the partition")
	ErrFull     = errors.New("mica: full")                             // either of the following
	ErrExists   = errors.New("mica: the key is there")                 // of Add
	ErrNotFound = errors.New("mica: the key is not there")             // of what needs it
	ErrVersion  = errors.New("mica: the item has changed")             // of CompareAndSwap
	ErrNumber   = errors.New("mica: the value is not a 64-bit number") // of Increment
)

// Mode says what a partition does when it is full.
type Mode uint8

// The modes.
const (
	Cache Mode = iota // it forgets old items
	Store             // it refuses new ones
)

// String returns "cache" or "store".
func (m Mode) String() string {
	if m == Store {
		return "store"
	}
	return "cache"
}

// Config describes a partition.
type Config struct {
	Mode Mode
	// Memory is the size of the partition, index and items together, in bytes: 64 KiB at least.
	Memory int
	// ItemSize is the expected size of key and value together in bytes, from which the size of the
	// index follows: 4 items per bucket of 7. Default 48 (HERD, section 5).
	ItemSize int
	// MoveToHead is the part of the log, at its old end, whose items are appended anew when they are
	// read: 0 none (FIFO), 1 all (LRU). MICA's threshold is 1 less this. For caches.
	MoveToHead float64
	// FirstVersion is the version before that of the first item, of which the lower 48 bits count. A
	// server whose clients outlive it gives a random one: a clock would have to be faster than all
	// writes, and never go back.
	FirstVersion uint64
	// NoHugepages keeps the memory in ordinary pages.
	NoHugepages bool

	// Readers lets other goroutines look keys up beside the owner (CREW), see Partition.NewReader.
	// Each word that the owner writes costs some 20 cycles more then.
	Readers bool

	onHeap     bool // memory of the Go heap, which the race detector watches, in tests
	offsetBits int  // width of offsets, less than 48 in tests
	maxChain   int  // extra buckets of a chain
}

const (
	bucketSize = 64
	minMemory  = 64 << 10
	maxStore   = 1 << 37 // so that a bucket's number has 31 bits
	headBytes  = 16
)

func (c *Config) check() error {
	switch {
	case c.Mode > Store:
		return fmt.Errorf("%w: mode %d", ErrConfig, c.Mode)
	case c.Memory < minMemory || uint64(c.Memory) > 1<<46:
		return fmt.Errorf("%w: %d bytes of memory, want %d to 2^46", ErrConfig, c.Memory, minMemory)
	case c.Mode == Store && uint64(c.Memory) > maxStore:
		return fmt.Errorf("%w: %d bytes of memory, a store has 2^37 at most", ErrConfig, c.Memory)
	case c.ItemSize < 0 || c.ItemSize > MaxKey+MaxValue:
		return fmt.Errorf("%w: items of %d bytes", ErrConfig, c.ItemSize)
	case !(c.MoveToHead >= 0 && c.MoveToHead <= 1):
		return fmt.Errorf("%w: MoveToHead is %v, want 0 to 1", ErrConfig, c.MoveToHead)
	case c.MoveToHead != 0 && c.Mode == Store:
		return fmt.Errorf("%w: MoveToHead is for caches", ErrConfig)
	}
	if c.ItemSize == 0 {
		c.ItemSize = 48
	}
	if c.offsetBits == 0 {
		c.offsetBits = 48
	}
	if c.maxChain == 0 {
		c.maxChain = 16
	}
	if c.Memory >= 32*hugemem.HugeSize && !c.NoHugepages {
		c.Memory &^= hugemem.HugeSize - 1
	}
	return nil
}

// Items per bucket of 7 when all memory is used. Lookups of a cache find all in one bucket; in a
// store one of four buckets has an extra one, from the memory of items, with a tenth of all items.
const (
	cacheLoad = 4
	storeLoad = 6
)

// split divides the memory: so many buckets, and so many bytes for items.
func (c *Config) split() (buckets, items int) {
	size := (c.ItemSize + headBytes + unit - 1) &^ (unit - 1)
	perBucket := cacheLoad*size + bucketSize
	if c.Mode == Store {
		perBucket = storeLoad*max(size, minBlock*unit) + bucketSize + bucketSize/4
	}
	buckets = max(c.Memory/perBucket, 8)
	buckets = min(buckets, math.MaxUint32/2)
	items = c.Memory - buckets*bucketSize
	return buckets, items &^ (bucketSize - 1)
}

// Partition is a part of the keys, with one owner.
type Partition struct {
	mode    Mode
	seed    maphash.Seed
	buckets []bucket // the index; in a store all memory, where extra buckets are
	index   uint32   // how many are of the index
	chunks  uint32   // first chunk with a free extra bucket
	log     ring     // the items of a cache
	heap    heap     // ... of a store
	now     uint32
	version uint64
	chain   int    // extra buckets of a chain at most
	mask    uint64 // of offsets in entries
	old     uint64 // age from which reading moves an item, in units
	sweeper
	moves   [maxMoves]move
	moving  int
	later   later
	scratch []byte // a value that is put together
	stats   Stats
	shared  *shared // with readers
	onHeap  bool
	mem     []byte
	hash    func(key []byte) KeyHash // of tests that have another than Hash
}

// New makes a partition, with all of its memory. Errors: ErrConfig, those of the system.
func New(cfg Config) (*Partition, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	buckets, items := cfg.split()
	alloc, huge := buckets*bucketSize+items, false
	if cfg.Memory%hugemem.HugeSize == 0 {
		alloc = cfg.Memory // less than a line was left over
	}
	var mem []byte
	var err error
	if cfg.onHeap {
		words := make([]uint64, alloc/8+8)
		mem = unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), alloc)
	} else if cfg.NoHugepages {
		mem, err = hugemem.AllocPlain(alloc)
	} else if mem, huge, err = hugemem.Alloc(alloc); err == nil && !huge && alloc >= hugemem.HugeSize {
		hugemem.Advise(mem)
	}
	if err != nil {
		return nil, err
	}
	p := &Partition{mode: cfg.Mode, seed: maphash.MakeSeed(), mem: mem, index: uint32(buckets),
		chain: cfg.maxChain,
		mask:  1<<cfg.offsetBits - 1, version: cfg.FirstVersion & versionMask,
		onHeap: cfg.onHeap}
	p.buckets = unsafe.Slice((*bucket)(unsafe.Pointer(&mem[0])), buckets)
	if p.mode == Store {
		p.buckets = unsafe.Slice(&p.buckets[0], buckets+items/bucketSize)
	}
	data := mem[buckets*bucketSize:][:items:items]
	if err := p.setUp(data, &cfg); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.stats.Huge, p.stats.Memory, p.stats.Index = huge, uint64(len(mem)), uint64(buckets)*bucketSize
	return p, nil
}

// setUp prepares the memory of items.
func (p *Partition) setUp(data []byte, cfg *Config) error {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&data[0])), len(data)/unit)
	s := space{bytes: data, words: words, shared: cfg.Readers}
	units := uint64(len(s.words))
	if units*4 > p.mask+1 {
		return fmt.Errorf("%w: %d bytes are too much for offsets of %d bits",
			ErrConfig, len(data), cfg.offsetBits)
	}
	p.stats.Capacity = units * unit
	p.soonest, p.seen = never, never
	if cfg.Readers {
		p.shared = new(shared)
	}
	if p.mode == Store {
		p.heap.space = s
		p.heap.reset()
		return nil
	}
	p.log.space, p.log.stats, p.log.out = s, &p.stats, p.shared
	p.old = units - uint64(cfg.MoveToHead*float64(units))
	p.step = (p.mask + 1) / 2 / uint64(p.index)
	if p.step == 0 {
		return fmt.Errorf("%w: %d buckets are too many for offsets of %d bits",
			ErrConfig, p.index, cfg.offsetBits)
	}
	p.next = p.step
	return nil
}

// Close gives the memory back. Nobody may use the partition, or views of it, any more.
func (p *Partition) Close() error {
	mem, onHeap := p.mem, p.onHeap
	*p = Partition{}
	if mem == nil || onHeap {
		return nil
	}
	return hugemem.Free(mem)
}

// SetNow tells the time, in seconds from any start that stays the same; it must not go back. Items
// expire by it.
func (p *Partition) SetNow(seconds uint32) {
	p.now = seconds
	if p.shared != nil {
		p.shared.now.Store(seconds)
	}
}

// Now returns the last time of SetNow.
func (p *Partition) Now() uint32 { return p.now }

// Mode returns the mode.
func (p *Partition) Mode() Mode { return p.mode }

// Clear forgets all items.
func (p *Partition) Clear() {
	p.settle() // Puts that wait are counted
	p.stats.Items, p.stats.Bytes = 0, 0
	p.soonest, p.seen = never, never
	if p.mode == Cache {
		p.log.clear()
		return
	}
	p.empty()
	p.heap.reset()
	p.count(-int64((p.stats.Index - uint64(p.index)*bucketSize) / unit))
	p.chunks, p.stats.Extra = 0, 0
}

// Expiry returns when an item ends that is given a life in seconds from now; 0 is for ever.
func (p *Partition) Expiry(life uint32) uint32 {
	if life == 0 {
		return 0
	}
	return max(p.now+min(life, 1<<32-1-p.now), 1)
}
