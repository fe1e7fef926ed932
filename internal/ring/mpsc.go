package ring

import "sync/atomic"

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

// MPSC is a bounded queue: Push from any goroutine, all else from one at a
// time, the consumer. Values of one producer come out in the order they went in.
// Make one with NewMPSC.
type MPSC[T any] struct {
	slots []slot[T]
	mask  uint64
	_     [64]byte
	tail  atomic.Uint64 // next position to push to; written by producers
	_     [56]byte
	head  uint64 // next position to pop from; the consumer's alone
	_     [56]byte
}

// NewMPSC returns an empty ring for at least capacity values: the next power of two,
// not less than 2 nor more than 1<<30.
func NewMPSC[T any](capacity int) *MPSC[T] {
	n := 2 // one slot could not tell "full" from "free": pos+1 would be the next round
	for n < min(capacity, maxCapacity) {
		n *= 2
	}
	return &MPSC[T]{slots: make([]slot[T], n), mask: uint64(n - 1)}
}

// Cap returns how many values the ring holds when full.
func (r *MPSC[T]) Cap() int { return len(r.slots) }

// Push adds v and returns true, or returns false if the ring is full. It never waits.
// A producer that wakes a sleeping consumer must do so after Push.
func (r *MPSC[T]) Push(v T) bool {
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
			return false
		default: // another producer was faster
			pos = r.tail.Load()
		}
	}
}

// Pop removes the oldest value. It returns false if there is none, or if the
// producer of the oldest is between taking its slot and filling it; that producer's
// Push has not returned then. For the consumer.
func (r *MPSC[T]) Pop() (v T, ok bool) {
	pos := r.head
	s := &r.slots[pos&r.mask]
	round := pos &^ r.mask
	if s.seq.Load() != round+1 {
		return v, false
	}
	var none T
	v, s.value = s.value, none // the ring keeps nothing alive
	s.seq.Store(round + uint64(len(r.slots)))
	r.head = pos + 1
	return v, true
}

// Empty says whether Pop would return false. For the consumer.
func (r *MPSC[T]) Empty() bool {
	return r.slots[r.head&r.mask].seq.Load() != r.head&^r.mask+1
}

// Pushed returns how many values were pushed so far, those that are just being pushed included. It
// is safe in any goroutine.
func (r *MPSC[T]) Pushed() uint64 { return r.tail.Load() }

// Len returns how many values are in the ring, those that are just being pushed
// included. It reads a word that producers write: prefer Empty in a loop. For the
// consumer.
func (r *MPSC[T]) Len() int { return int(r.tail.Load() - r.head) }
