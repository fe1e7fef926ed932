package carousel

import (
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Time is a point on the clock that the owner chooses. The alias gives it a name outside
// this module.
type Time = monotime.Time

const (
	none  = math.MaxUint32 // no entry
	never = math.MaxInt64  // no tick: no time of an int64 has this one
)

// Wheel schedules values of T. Make one with [New]. The package comment has the rules
// of time and order.
//
// Inside, a tick is the number of a slot's width since time 0, and the slot of tick k
// is k modulo the number of slots. All items of the slots have ticks in
// [start, start+slots), see start, so that a slot holds items of one tick only.
type Wheel[T any] struct {
	slots    []list
	nonEmpty bitmap
	shift    uint  // a tick is 1<<shift ns
	mask     int64 // number of slots - 1
	seen     int64 // tick of the greatest now
	first    int64 // least tick with an item, or never
	due      list  // items that left their slots because the slots were needed

	slab    []entry[T]
	free    uint32 // first free entry of the slab, or none
	n       int
	clipped uint64
}

// list is a queue of entries. In a slot it counts only if the bitmap has the slot.
type list struct {
	head, tail uint32
}

type entry[T any] struct {
	v    T
	next uint32 // in its list, or in the list of free entries
}

// New returns an empty wheel whose time is now. The error is a *[ConfigError].
func New[T any](c Config, now Time) (*Wheel[T], error) {
	shift, slots, err := c.shape()
	if err != nil {
		return nil, err
	}
	return &Wheel[T]{
		slots:    make([]list, slots),
		nonEmpty: newBitmap(slots),
		shift:    shift,
		mask:     slots - 1,
		seen:     int64(now) >> shift,
		first:    never,
		due:      list{head: none, tail: none},
		free:     none,
	}, nil
}

// Len returns how many items are in the wheel, due or not.
func (w *Wheel[T]) Len() int { return w.n }

// Clipped returns how many items were beyond the horizon since New.
func (w *Wheel[T]) Clipped() uint64 { return w.clipped }

// Granularity returns the width of a slot.
func (w *Wheel[T]) Granularity() time.Duration { return 1 << w.shift }

// Horizon returns how far ahead of the greatest now a time is certain not to be
// clipped. It is at least what [Config] asked for.
func (w *Wheel[T]) Horizon() time.Duration { return time.Duration(w.mask-1) << w.shift }

// Advance tells the wheel the time. It takes nothing out. Insert measures the
// horizon from the greatest time told, so tell it after a sleep and before Insert.
func (w *Wheel[T]) Advance(now Time) {
	w.seen = max(w.seen, int64(now)>>w.shift)
}

// Insert schedules v: it will not leave before at. A time in the past is due at
// once, behind items of earlier slots. A time beyond the horizon counts as the
// horizon, and clipped says so: this item leaves before its time.
func (w *Wheel[T]) Insert(at Time, v T) (clipped bool) {
	tick := w.tickOf(at)
	// The greatest tick of an int64 bounds the last slot too, so that every item
	// becomes due while the clock can still tell.
	if last := min(w.seen+w.mask, math.MaxInt64>>w.shift); tick > last {
		tick, clipped = last, true
		w.clipped++
	}
	tick = max(tick, w.start())
	if tick-w.start() > w.mask {
		w.settle()
	}
	w.push(tick, w.put(v))
	return clipped
}

// Pop takes out the next item that is due at now, or at the greatest now
// before. It says false if there is none.
func (w *Wheel[T]) Pop(now Time) (v T, ok bool) {
	w.Advance(now)
	var i uint32
	switch {
	case w.due.head != none:
		i = w.due.head
		w.due.head = w.slab[i].next
	case w.first <= w.seen:
		i = w.shiftFirst()
	default:
		return v, false
	}
	return w.take(i), true
}

// Next returns the time from which on Pop gives something: the begin of the
// first slot with items. If that is not after the greatest now, Pop gives something
// at once. It says false if the wheel is empty.
func (w *Wheel[T]) Next() (at Time, ok bool) {
	if w.n == 0 {
		return 0, false
	}
	tick := w.first
	if w.due.head != none {
		tick = w.start()
	}
	return Time(tick << w.shift), true
}

// tickOf returns the tick of the first slot that begins at or after a time.
func (w *Wheel[T]) tickOf(at Time) int64 {
	tick := int64(at) >> w.shift
	if Time(tick<<w.shift) != at {
		tick++
	}
	return tick
}

// start is the least tick that an item in the slots has or may get. It never
// decreases: Insert puts nothing before it.
func (w *Wheel[T]) start() int64 { return min(w.first, w.seen) }

// push appends entry i to the slot of a tick in [start, start+slots).
func (w *Wheel[T]) push(tick int64, i uint32) {
	k := uint32(tick & w.mask)
	slot := &w.slots[k]
	if w.nonEmpty.has(k) {
		w.slab[slot.tail].next = i
		slot.tail = i
		return
	}
	*slot = list{head: i, tail: i}
	w.nonEmpty.set(k)
	w.first = min(w.first, tick)
}

// shiftFirst takes the first entry out of the slot of w.first.
func (w *Wheel[T]) shiftFirst() uint32 {
	slot := &w.slots[w.first&w.mask]
	i := slot.head
	if i == slot.tail {
		w.leaveFirst()
	} else {
		slot.head = w.slab[i].next
	}
	return i
}

// leaveFirst gives up the slot of w.first, whose items are out, and finds the next.
func (w *Wheel[T]) leaveFirst() {
	k := uint32(w.first & w.mask)
	w.nonEmpty.clear(k)
	next, ok := w.nonEmpty.next(k)
	if !ok {
		if next, ok = w.nonEmpty.next(0); !ok {
			w.first = never
			return
		}
	}
	w.first += int64(next-k) & w.mask
}

// settle moves the items of all due slots aside, in order, so that the slots can hold
// times a whole wheel ahead of now. It is needed only when the clock has passed items
// that were not popped and Insert wants a slot that one of them may have.
func (w *Wheel[T]) settle() {
	for w.first <= w.seen {
		slot := w.slots[w.first&w.mask]
		if w.due.head == none {
			w.due = slot
		} else {
			w.slab[w.due.tail].next = slot.head
			w.due.tail = slot.tail
		}
		w.leaveFirst()
	}
}

// put stores v in an entry that is in no list.
func (w *Wheel[T]) put(v T) uint32 {
	w.n++
	i := w.free
	if i == none {
		w.slab = append(w.slab, entry[T]{v: v, next: none})
		return uint32(len(w.slab) - 1)
	}
	e := &w.slab[i]
	w.free = e.next
	e.v, e.next = v, none
	return i
}

// take returns the value of entry i, which is in no list any more, and frees it.
func (w *Wheel[T]) take(i uint32) T {
	w.n--
	e := &w.slab[i]
	v := e.v
	var zero T
	e.v, e.next = zero, w.free // a kept pointer would keep its target alive
	w.free = i
	return v
}
