package shmem

import (
	"sync/atomic"
	"unsafe"
)

// BellSize is the size in bytes of the memory of a Bell.
const BellSize = pageSize

// Bell tells others whether its owner sleeps. The owner counts up when it goes to
// sleep and again when it gets up, so the count is odd while it sleeps. The owner
// maps the memory for writing, everybody else only for reading.
//
// The owner calls Sleep, then looks at its rings once more, then blocks; a sender
// publishes, then looks at the bell. Both store before they load, and if the processors
// keep that order, one of the two sees the other. The owner's Sleep sees to it for both
// where it can: membarrier(2) makes the running threads of all processes that asked for
// it pass a barrier. Elsewhere the sender's store has to be one, see Producer.SetFence.
type Bell struct{ count *uint64 }

// NewBell returns the bell in mem, of BellSize bytes.
func NewBell(mem []byte) Bell { return Bell{(*uint64)(unsafe.Pointer(&mem[0]))} }

// Sleep says that the owner is about to sleep. Only for the owner.
func (b Bell) Sleep() {
	atomic.StoreUint64(b.count, atomic.LoadUint64(b.count)|1)
	barrier()
}

// GetUp says that the owner is awake. Only for the owner.
func (b Bell) GetUp() { atomic.StoreUint64(b.count, (atomic.LoadUint64(b.count)+1)&^1) }

// Listener is how a sender looks at the bell of another.
type Listener struct {
	bell Bell
	rung uint64 // the sleep that it has ended
}

// NewListener returns a listener on the bell in mem, of BellSize bytes.
func NewListener(mem []byte) Listener { return Listener{bell: NewBell(mem)} }

// Asleep reports whether the owner sleeps and this sender has not been told so about
// the same sleep before. A sender that is told wakes the owner.
func (l *Listener) Asleep() bool {
	count := atomic.LoadUint64(l.bell.count)
	if count&1 == 0 || count == l.rung {
		return false
	}
	l.rung = count
	return true
}
