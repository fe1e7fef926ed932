package recverr

import "github.com/userspace-rpc/erpc/transport"

// MaxHints is how many hints wait; more are dropped.
const MaxHints = 64

// Ring holds hints until the transport's caller asks for them. The zero value is empty.
type Ring struct {
	slots *[MaxHints]slot // nil before the first hint
	head  int             // the first one
	count int             // of those from head on
	lent  int             // of those: what Drain has returned
}

// slot is a hint with its bytes.
type slot struct {
	hint transport.Hint
	size int
	mem  [transport.QuotedMax]byte
}

// Add adds a hint, and copies what it quotes. It drops a hint for which there is no room.
func (r *Ring) Add(h transport.Hint, quoted []byte) {
	if r.count == MaxHints {
		return
	}
	if r.slots == nil {
		r.slots = new([MaxHints]slot)
	}
	s := &r.slots[(r.head+r.count)%MaxHints]
	s.hint, s.size = h, copy(s.mem[:], quoted)
	r.count++
}

// Drain returns up to len(hints) hints that were not returned yet. Those of the call before give
// their memory back.
func (r *Ring) Drain(hints []transport.Hint) int {
	r.head = (r.head + r.lent) % MaxHints
	r.count -= r.lent
	r.lent = min(len(hints), r.count)
	for i := range r.lent {
		s := &r.slots[(r.head+i)%MaxHints]
		hints[i] = s.hint
		hints[i].Quoted = s.mem[:s.size:s.size]
	}
	return r.lent
}
