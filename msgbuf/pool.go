package msgbuf

import (
	"fmt"
	"sync"
	"sync/atomic"

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
	// and returns the key that Buffer.Key then reports. Its error ends the Alloc.
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
	max     int  // largest size, -1 when closed
	last    uint // index of the last class
	classes [maxClasses]class
	cfg     Config
	mu      sync.Mutex // held by all methods if cfg.Shared

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
	b.size = n
	b.next = nil
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
// no such n.
func (p *Pool) Footprint(n int) int {
	if n < 0 || n > p.max {
		return 0
	}
	return int(p.classes[p.classOf(n)%maxClasses].chunk)
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
	leaked := 0
	for i := range p.classes {
		leaked += p.classes[i].inUse
	}
	if leaked != 0 {
		return &LeakError{leaked}
	}
	return nil
}
