package msgbuf

import "sync/atomic"

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

// take takes n bytes if they are left. A nil budget has no end.
func (b *Budget) take(n int) bool {
	if b == nil || b.used.Add(int64(n)) <= b.limit {
		return true
	}
	b.give(n)
	return false
}

// give gives n bytes back.
func (b *Budget) give(n int) {
	if b != nil {
		b.used.Add(-int64(n))
	}
}
