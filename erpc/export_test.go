package erpc

import (
	"context"
	"time"
)

// Forget makes a server drop its end of a client's session without a word.
func (r *Rpc) Forget(client *Session) {
	for _, s := range r.engine.table.byNumber {
		if s == nil || s.sv == nil || s.end.Remote != client.end.Local {
			continue
		}
		if s.end.Peer == client.engine.owner.LocalAddr() {
			s.sv.Close(r.engine.out)
			for r.engine.out.Next() != nil {
				// Nobody is told.
			}
			r.engine.forget(s)
		}
	}
}

// SpoilFree writes over the buffers that the pool of messages gives out next, those of more than
// a packet: a queue that still refers to one shows it.
func (r *Rpc) SpoilFree() {
	const few = 3 // of each size
	pool := r.engine.pool
	var taken []*MsgBuffer
	for _, c := range pool.Stats().Classes {
		if c.MaxSize < MinMTU {
			continue
		}
		for range min(c.Free, few) {
			if b, err := pool.Alloc(c.MaxSize); err == nil {
				clear(b.Data())
				taken = append(taken, b)
			}
		}
	}
	for i := range taken {
		taken[len(taken)-1-i].Free()
	}
}

// InUse returns how many message buffers are not in the pool.
func (r *Rpc) InUse() int { return r.engine.pool.Stats().InUse }

// WhenIdle calls fn once, in a pass, when no handler has run for a span of time.
func (r *Rpc) WhenIdle(span time.Duration, fn func()) { r.engine.whenIdle(span, fn) }

// ServerOf returns a Server that registers handlers with n, and does nothing else.
func ServerOf(n *Nexus) *Server { return &Server{nexus: n, ctx: context.Background()} }

// Accounted returns the bytes that count in the book, and in shares of addresses.
func (r *Rpc) Accounted() (all, addresses int64) {
	for _, sh := range r.engine.shares.byKey {
		addresses += sh.account.Used()
	}
	return r.engine.shares.book.used.Load(), addresses
}
