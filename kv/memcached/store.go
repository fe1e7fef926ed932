package memcached

import (
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// Store is partitions, and who may use them.
type Store interface {
	// Partitions returns how many there are.
	Partitions() int
	// Do runs fn, which does not block, on a partition while nobody else uses it, and waits. After
	// an error fn has not run.
	Do(partition int, fn func(p *mica.Partition)) error
}

// Local is a Store of this process, with a lock per partition.
type Local struct {
	parts []local
	clock func() uint32
}

type local struct {
	mu sync.Mutex
	p  *mica.Partition
}

// NewLocal returns a Local of partitions, which stay the caller's; nobody else may use them
// meanwhile. The clock returns seconds since 1970; nil is the system's.
func NewLocal(clock func() uint32, parts ...*mica.Partition) *Local {
	if clock == nil {
		clock = func() uint32 { return uint32(time.Now().Unix()) }
	}
	l := &Local{parts: make([]local, len(parts)), clock: clock}
	for i, p := range parts {
		l.parts[i].p = p
	}
	return l
}

// sweepSteps is how much of a partition is looked at for expired items each second.
const sweepSteps = 128

// Partitions implements Store.
func (l *Local) Partitions() int { return len(l.parts) }

// Do implements Store. The error is nil.
func (l *Local) Do(partition int, fn func(p *mica.Partition)) error {
	at := &l.parts[partition]
	at.mu.Lock()
	defer at.mu.Unlock()
	if now := l.clock(); now > at.p.Now() {
		at.p.SetNow(now)
		at.p.Sweep(sweepSteps)
	}
	fn(at.p)
	return nil
}
