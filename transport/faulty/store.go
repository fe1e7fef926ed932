package faulty

import (
	"math"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// held is a packet in a store.
type held struct {
	buf    []byte // MTU bytes
	n      int    // length of the packet
	addr   transport.Addr
	ce     bool
	shared bool   // RxPacket.Shared, though the copy is private
	after  uint64 // due when so many packets have passed in this direction
	at     Time   // or at this time
}

// never as held.after leaves the release to time alone.
const never = math.MaxUint64

// store keeps copies of packets until they are due. All memory is made at the
// start; slots are named by index.
type store struct {
	slots []held
	free  []int32 // as a stack
	queue []int32 // held, in order of arrival
	lent  []int32 // given out by RxBurst, in use until the next
}

func newStore(slots, mtu int) store {
	s := store{
		slots: make([]held, slots),
		free:  make([]int32, 0, slots),
		queue: make([]int32, 0, slots),
		lent:  make([]int32, 0, slots),
	}
	mem := make([]byte, slots*mtu)
	for i := range s.slots {
		s.slots[i].buf = mem[i*mtu : (i+1)*mtu : (i+1)*mtu]
		s.free = append(s.free, int32(i))
	}
	return s
}

// put takes a free slot, the caller fills it in. nil means full.
func (s *store) put() *held {
	last := len(s.free) - 1
	if last < 0 {
		return nil
	}
	i := s.free[last]
	s.free = s.free[:last]
	s.queue = append(s.queue, i)
	return &s.slots[i]
}

// due returns the place in the queue of the packet to release next, or -1. Those
// due by time come in order of their times, as on a line with delay.
func (s *store) due(passed uint64, now Time) int {
	best, bestAt := -1, monotime.Never
	for q, i := range s.queue {
		h := &s.slots[i]
		at := h.at
		if at > now {
			if h.after > passed {
				continue
			}
			at = now
		}
		if at < bestAt {
			best, bestAt = q, at
		}
	}
	return best
}

// nextAt returns the earliest release time, which exists when the queue is not empty.
func (s *store) nextAt() Time {
	at := monotime.Never
	for _, i := range s.queue {
		at = min(at, s.slots[i].at)
	}
	return at
}

// take removes the packet at place q of the queue; its slot is the caller's.
func (s *store) take(q int) int32 {
	i := s.queue[q]
	s.queue = append(s.queue[:q], s.queue[q+1:]...)
	return i
}

func (s *store) release(i int32) { s.free = append(s.free, i) }

// lend gives slot i out until takeBack.
func (s *store) lend(i int32) { s.lent = append(s.lent, i) }

func (s *store) takeBack() {
	s.free = append(s.free, s.lent...)
	s.lent = s.lent[:0]
}
