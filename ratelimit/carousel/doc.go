// Package carousel is the timing wheel of a rate limiter: it holds things until the
// time at which they may go, and gives them back in the order of these times.
//
// The design is Carousel's (Saeed et al., "Carousel: Scalable Traffic Shaping at End
// Hosts", SIGCOMM 2017), which eRPC (NSDI 2019, section 5.2) uses to pace its
// sessions. Rates are turned into times before anything comes here: the owner keeps
// one pacing clock per flow, at = max(now, previous + size/rate), and the wheel
// knows neither flows nor rates. Its items are a type parameter: a session
// with a packet to send (one entry per session), or the packets themselves.
//
//	w.Advance(now)               // once per round, after reading the clock
//	w.Insert(at, session)        // not to go before at
//	for v, ok := w.Pop(now); ok; v, ok = w.Pop(now) {
//		// v may go; schedule what is next with Insert
//	}
//
// An item that is inserted for a time not after now is due in the same round, so an
// owner that does so without end must bound how many it pops per round.
//
// One goroutine at a time uses a wheel. Nothing here reads a clock: time is an
// argument, a point on one clock that the owner chooses.
//
// # Map
//
//	owns       the order of things by the time at which they may go
//	called by  package erpc, for sessions below link rate
//	never      something goes early; it reads a clock or allocates per item
//
// # Slots: never early, at most one slot late
//
// A slot is [Config.Granularity] wide, a power of two of nanoseconds, and slot k
// begins at k times that width. An item goes into the first slot that begins at or
// after its time, and may leave when its slot has begun. So it never leaves before
// its time, and if Pop is called then, it leaves less than one granularity after it.
// (Rounding down instead would let a flow burst ahead of its rate.) The pacing clock
// runs on from the time asked for, not from the time of leaving, so lateness does
// not add up and the rate of a flow is exact over time.
//
// # Horizon: the one exception
//
// The wheel reaches [Wheel.Horizon] ahead of the greatest time it was told, by New,
// Advance or Pop. An item beyond it goes into the last slot, Carousel's rule, so it
// leaves before its time; Insert reports that and [Wheel.Clipped] counts it. An
// owner that must keep to the time looks at it when the item comes out and inserts
// the item again. For the same reason a wheel must know the time before it is given
// items: after a sleep, call Advance before Insert.
//
// # Order
//
// Slots leave in the order of time, items of one slot in the order of insertion.
// Items that one flow inserts with times that never decrease leave in the order of
// insertion, always: past times, clipping and jumps of the clock do not change it,
// because both ends of the wheel only move forward. Items of different flows with
// times in one slot leave in the order of insertion.
//
// # The clock
//
// Time in a wheel is the greatest now it was told. A clock that stands still or
// jumps back changes nothing: due items stay due, the others wait until
// the clock has passed the greatest now and reaches their time. Times computed from
// the lower clock are then in the past for the wheel: such items leave at once,
// unpaced, until the clock has caught up. Nothing is lost and nothing leaves early.
// A jump forward, by hours if need be, makes everything due that was in between, and
// costs nothing by itself: empty slots are never looked at one by one.
//
// # No deletion
//
// An item stays until it is popped. The pacing clock of a flow has already moved on
// when an item is in the wheel: to take it out, the owner would have to roll back the
// clock and, with it, the state of rate computation that all requests of a session
// share, or else leave a gap; and Carousel is only right while times are a bounded
// way ahead of now (eRPC, appendix C). So the owner checks, when an item comes out,
// whether it still means anything, and drops it if not. It holds no memory that
// somebody else may reuse before then.
//
// # Cost
//
// Insert is O(1), Next, Len, Advance and Pop are O(1) in the worst case: the non-empty
// slots are found through a bitmap of three levels, 64 slots to a word. There is one
// amortised case: after the clock passed more than the wheel's length over items
// nobody popped, the first Insert far ahead moves the due slots aside, once for each
// item that waited.
//
// New allocates 8 bytes and a bit per slot: 130 KiB for the default of 16,384 slots.
// Items are kept in a slab of the size of T plus 4 bytes (rounded up to T's alignment)
// each, which grows when there are more items than ever before and never shrinks; so
// in steady state nothing allocates. A popped item's place is cleared, so the wheel
// keeps nothing alive that it gave back. It holds up to 2^32-1 items.
package carousel
