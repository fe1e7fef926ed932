package ring

import (
	"sync"
	"sync/atomic"
)

// maxCapacity keeps the rounding up to a power of two in range.
const maxCapacity = 1 << 30

// slot holds one value. Its sequence number says whose turn it is, for the
// position pos that maps to it, less the slot's place: pos = the producer's, pos+1 = the
// consumer's, pos+len(slots) = the producer's of the next round. So all begin with 0, and a ring
// takes no more memory than it has had values.
type slot[T any] struct {
	seq   atomic.Uint64
	value T
}

// small is how many values the ring itself holds at most. It is walked from end to end, so a large
// one is in no cache.
const small = 1024

// MPSC is a bounded queue: Push from any goroutine, all else from one at a time, the consumer.
// Values come out in the order in which they went in, but for those that are pushed at the same
// time. Make one with NewMPSC.
//
// It is a ring of up to 1,024 values. What finds that full goes to an overflow behind it, under a
// lock, and so does what comes until the consumer has emptied the ring and taken the overflow.
type MPSC[T any] struct {
	slots []slot[T]
	mask  uint64
	limit int // values in the overflow, those that were taken included
	_     [64]byte
	tail  atomic.Uint64 // next position to push to; written by producers
	_     [56]byte
	head  uint64 // next position to pop from; the consumer's alone, and so are these
	taken []T    // of the overflow, before all that is in the ring
	next  int    // in taken
	_     [56]byte
	over  overflow[T]
}

// overflow holds the values behind those of the ring.
type overflow[T any] struct {
	some    atomic.Bool // list has values
	held    atomic.Int64
	spilled atomic.Uint64 // values that came
	mu      sync.Mutex
	list    []T
}

// NewMPSC returns an empty queue for at least capacity values: the next power of two,
// not less than 2 nor more than 1<<30.
func NewMPSC[T any](capacity int) *MPSC[T] {
	return newMPSC[T](capacity, small)
}

func newMPSC[T any](capacity, small int) *MPSC[T] {
	n := 2 // one slot could not tell "full" from "free": pos+1 would be the next round
	for n < min(capacity, maxCapacity) {
		n *= 2
	}
	r := &MPSC[T]{slots: make([]slot[T], min(n, small)), mask: uint64(min(n, small) - 1)}
	if n > small {
		r.limit = n
	}
	return r
}

// Cap returns how many values the queue holds at least when full.
func (r *MPSC[T]) Cap() int { return max(len(r.slots), r.limit) }

// Push adds v and returns true, or returns false if the queue is full. It waits for nobody but
// others in the overflow. A producer that wakes a sleeping consumer must do so after Push.
func (r *MPSC[T]) Push(v T) bool {
	if r.over.some.Load() {
		return r.spill(v)
	}
	pos := r.tail.Load()
	for {
		s := &r.slots[pos&r.mask]
		round := pos &^ r.mask
		switch d := int64(s.seq.Load() - round); {
		case d == 0: // free in this round
			if r.tail.CompareAndSwap(pos, pos+1) {
				s.value = v
				s.seq.Store(round + 1)
				return true
			}
			pos = r.tail.Load()
		case d < 0: // still full from the round before
			return r.spill(v)
		default: // another producer was faster
			pos = r.tail.Load()
		}
	}
}

// spill adds v to the overflow.
//
//go:noinline
func (r *MPSC[T]) spill(v T) bool {
	o := &r.over
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held.Load() >= int64(r.limit) {
		return false
	}
	o.list = append(o.list, v)
	o.held.Add(1)
	o.spilled.Add(1)
	o.some.Store(true)
	return true
}

// Pop removes the oldest value. It returns false if there is none, or if the
// producer of the oldest is between taking its slot and filling it, or one is just adding to the
// overflow; that producer's Push has not returned then. For the consumer.
func (r *MPSC[T]) Pop() (v T, ok bool) {
	if r.next < len(r.taken) {
		return r.popTaken(), true
	}
	pos := r.head
	s := &r.slots[pos&r.mask]
	round := pos &^ r.mask
	if s.seq.Load() != round+1 {
		if r.over.some.Load() && r.take() {
			return r.popTaken(), true
		}
		return v, false
	}
	var none T
	v, s.value = s.value, none // the ring keeps nothing alive
	s.seq.Store(round + uint64(len(r.slots)))
	r.head = pos + 1
	return v, true
}

// popTaken removes the oldest value of those that were taken.
func (r *MPSC[T]) popTaken() (v T) {
	var none T
	v, r.taken[r.next] = r.taken[r.next], none
	r.next++
	r.over.held.Add(-1)
	return v
}

// take takes the overflow if the ring is empty, and nobody holds the lock. Who pushed to the ring
// before another one to the overflow is seen under the lock.
//
//go:noinline
func (r *MPSC[T]) take() bool {
	o := &r.over
	if !o.mu.TryLock() {
		return false
	}
	defer o.mu.Unlock()
	if r.tail.Load() != r.head {
		return false
	}
	spare := r.taken[:0]
	if cap(spare) > 4*small {
		spare = nil // after a crowd
	}
	r.taken, o.list, r.next = o.list, spare, 0
	o.some.Store(false)
	return true
}

// Empty says whether Pop would return false. It may say no wrongly while somebody pushes. For the
// consumer.
func (r *MPSC[T]) Empty() bool {
	return r.slots[r.head&r.mask].seq.Load() != r.head&^r.mask+1 && r.next == len(r.taken) &&
		!(r.over.some.Load() && r.tail.Load() == r.head)
}

// Pushed returns how many values were pushed so far, those that are just being pushed included. It
// is safe in any goroutine.
func (r *MPSC[T]) Pushed() uint64 { return r.tail.Load() + r.over.spilled.Load() }

// Len returns how many values are in the queue, those that are just being pushed
// included. It reads words that producers write: prefer Empty in a loop. For the
// consumer.
func (r *MPSC[T]) Len() int { return int(r.tail.Load()-r.head) + int(r.over.held.Load()) }
