package erpc

import (
	"context"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Served returns a server's end of a client's session, nil if it has none.
func (r *Rpc) Served(client *Session) *Session {
	for _, s := range r.engine.table.byNumber {
		if s != nil && s.sv != nil && s.end.Remote == client.end.Local &&
			s.end.Peer == client.engine.owner.LocalAddr() {
			return s
		}
	}
	return nil
}

// Speak returns a Config of an endpoint that speaks the protocol's versions oldest to newest, as
// that of another release does.
func Speak(cfg Config, oldest, newest uint8) Config {
	cfg.oldest, cfg.newest = oldest, newest
	return cfg
}

// Forget makes a server drop its end of a client's session without a word.
func (r *Rpc) Forget(client *Session) {
	if s := r.Served(client); s != nil {
		s.sv.Close(r.engine.out)
		for r.engine.out.Next() != nil {
			// Nobody is told.
		}
		r.engine.forget(s)
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

// Accounted returns the bytes that count in the book, and in quotas of addresses.
func (r *Rpc) Accounted() (all, addresses int64) {
	for _, q := range r.engine.quotas.byKey {
		addresses += q.account.Used()
	}
	return r.engine.quotas.book.used.Load(), addresses
}

// Gathered returns how many background requests of the last pass the workers have not got.
func (r *Rpc) Gathered() int { return len(r.engine.jobs.batch) }

// ClientSessions returns how many sessions a Client has, those on their way too. Its loop must
// sleep.
func (c *Client) ClientSessions() int { return len(c.all) }

// Spend makes a Client's sessions ones whose request numbers have been used up. Its loop must
// sleep.
func (c *Client) Spend() {
	for _, l := range slices.Clone(c.all) {
		l.s.cl.Drain(c.rpc.engine.out)
		c.rpc.engine.spent(l.s)
	}
	c.rpc.engine.settle()
}

// Spend is Client.Spend for one session.
func (s *Session) Spend() {
	s.cl.Drain(s.engine.out)
	s.engine.spent(s)
}

// Posted returns how many commands wait for a Client's loop, which must sleep.
func (c *Client) Posted() int { return c.rpc.commands.Len() }

// Posted returns how many commands wait for a Loop, which must sleep.
func (l *Loop) Posted() int { return l.rpc.commands.Len() }

// Clients returns how many Clients a Loop has. It must sleep.
func (l *Loop) Clients() int { return len(l.clients) }

// Sessions returns how many sessions a Loop has. It must sleep.
func (l *Loop) Sessions() int { return l.rpc.Sessions() }

// Owns reports whether a session is one of the endpoint's.
func (r *Rpc) Owns(s *Session) bool { return s.engine == &r.engine }

// RemoteLoop returns the loop of the peer that has the other end of a session.
func (s *Session) RemoteLoop() uint8 { return wire.LoopOf(s.end.Remote) }

// Counters returns the counters of now.
func (r *Rpc) Counters() Stats { return r.snapshot() }

// Serves reports whether an endpoint has a transport.
func (r *Rpc) Serves(tr transport.Transport) bool { return r.tr == tr }

// Associations returns how many associations an endpoint has sessions by, and the packets that the
// first ones have sealed.
func (r *Rpc) Associations() (n int, sealed uint64) {
	for _, a := range r.engine.assocs.watched {
		if a.keys != nil {
			n++
			sealed += a.keys.Counter()
		}
	}
	return n, sealed
}

// Indices returns how many associations an endpoint has, those without sessions and those whose
// keys are being made too.
func (r *Rpc) Indices() (n int) {
	for _, a := range r.engine.assocs.places {
		if a != nil {
			n++
		}
	}
	return n
}

// Forged returns how many packets of its peers an endpoint could not open.
func (r *Rpc) Forged() (n uint64) {
	for _, p := range r.engine.assocs.watched {
		if p.keys != nil {
			n += p.keys.Forged()
		}
	}
	return n
}

// CreateNamed is CreateSessionTo for a server that is to have a name.
func (r *Rpc) CreateNamed(to transport.Addr, host string) (*Session, error) {
	return r.createTo(to, host)
}

// UseAgain makes a client session take the slot of a request that it gave up for free, as older
// clients do: the server has said nothing yet.
func (s *Session) UseAgain(num uint64) {
	e := s.engine
	s.cl.OnPast(&wire.Header{Type: wire.TypePast, ReqNum: num}, &e.in, e.out)
	e.settle()
}

// HasCommands reports whether something waits for a Client's loop.
func (c *Client) HasCommands() bool { return !c.rpc.commands.Empty() }

// Numbers returns the numbers and tokens by which packets name a session, at this side and at the
// peer's.
func (s *Session) Numbers() (session, token [2]uint32) {
	return [2]uint32{s.end.Local, s.end.Remote}, [2]uint32{s.end.LocalToken, s.end.RemoteToken}
}

// Sealed returns a datagram with a packet as it is, sealed by the association of a session; nil if
// it has none.
func (s *Session) Sealed(pkt []byte) (sealed []byte) {
	if s.assoc != nil {
		sealed, _ = s.assoc.keys.Seal(nil, pkt, nil)
	}
	return sealed
}

// MemoryUsed returns how much memory for messages the endpoints of a Nexus have, in bytes.
func (n *Nexus) MemoryUsed() int64 { return n.memory.budget.Used() }

// Charged returns how much of it is charged to clients.
func (n *Nexus) Charged() int64 { return n.memory.used.Load() }
