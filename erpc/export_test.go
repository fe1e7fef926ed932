package erpc

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Served returns a server's end of a client's session, nil if it has none.
func (r *Rpc) Served(client *Session) *Session {
	for _, c := range r.engine.Conns() {
		if c != nil && c.Server != nil && c.End.Remote == client.conn.End.Local &&
			c.End.Peer == client.rpc.LocalAddr() {
			return sessionOf(c)
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
		s.conn.Server.Close(r.engine.Out)
		for r.engine.Out.Next() != nil {
			// Nobody is told.
		}
		r.engine.Ended(&s.conn)
	}
}

// SpoilFree writes over the buffers that the pool of messages gives out next, those of more than
// a packet: a queue that still refers to one shows it.
func (r *Rpc) SpoilFree() {
	const few = 3 // of each size
	pool := r.pool
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
func (r *Rpc) InUse() int { return r.pool.Stats().InUse }

// WhenIdle calls fn once, in a pass, when no handler has run for a span of time.
func (r *Rpc) WhenIdle(span time.Duration, fn func()) { r.whenIdle(span, fn) }

// ServerOf returns a Server that registers handlers with n, and does nothing else.
func ServerOf(n *Nexus) *Server { return &Server{nexus: n, ctx: context.Background()} }

// Accounted returns the bytes that count in the book, and in quotas of addresses.
func (r *Rpc) Accounted() (all, addresses int64) {
	return r.nexus.memory.Used(), r.engine.Quotas().Used()
}

// Gathered returns how many background requests of the last pass the workers have not got.
func (r *Rpc) Gathered() int { return len(r.jobs.batch) }

// ClientSessions returns how many sessions a Client has, those on their way too. Its loop must
// sleep.
func (c *Client) ClientSessions() int { return len(c.all) }

// Spend makes a Client's sessions ones whose request numbers have been used up. Its loop must
// sleep.
func (c *Client) Spend() {
	for _, l := range slices.Clone(c.all) {
		l.s.Spend()
	}
	c.rpc.settle()
}

// Spend is Client.Spend for one session.
func (s *Session) Spend() {
	s.conn.Client.Drain(s.rpc.engine.Out)
	s.rpc.spent(s)
}

// Posted returns how many commands wait for a Client's loop, which must sleep.
func (c *Client) Posted() int { return c.rpc.commands.Len() }

// Posted returns how many commands wait for a Loop, which must sleep.
func (l *Loop) Posted() int { return l.rpc.commands.Len() }

// Stuck reports whether the Loop of a Client counts as one that a callback keeps.
func (c *Client) Stuck() bool { return c.rpc.stuckFor() > 0 }

// Clients returns how many Clients a Loop has. It must sleep.
func (l *Loop) Clients() int { return len(l.clients) }

// Lookups returns the names that the Clients of a Loop look up. It must sleep.
func (l *Loop) Lookups() (names []string) {
	for _, c := range l.clients {
		if c.redial.resolving {
			names = append(names, c.text)
		}
	}
	return names
}

// Sessions returns how many sessions a Loop has. It must sleep.
func (l *Loop) Sessions() int { return l.rpc.Sessions() }

// Owns reports whether a session is one of the endpoint's.
func (r *Rpc) Owns(s *Session) bool { return s.rpc == r }

// RemoteLoop returns the loop of the peer that has the other end of a session.
func (s *Session) RemoteLoop() uint8 { return wire.LoopOf(s.conn.End.Remote) }

// Counters returns the counters of now.
func (r *Rpc) Counters() Stats { return r.snapshot() }

// Serves reports whether an endpoint has a transport.
func (r *Rpc) Serves(tr transport.Transport) bool { return r.tr == tr }

// Associations returns how many associations an endpoint has sessions by, and the packets that the
// first ones have sealed.
func (r *Rpc) Associations() (n int, sealed uint64) {
	st := r.engine.AssocStats()
	return st.Open, st.Sealed
}

// Indices returns how many associations an endpoint has, those without sessions and those whose
// keys are being made too.
func (r *Rpc) Indices() int { return r.engine.AssocStats().Indices }

// Forged returns how many packets of its peers an endpoint could not open.
func (r *Rpc) Forged() uint64 { return r.engine.AssocStats().Forged }

// CreateNamed is CreateSessionTo for a server that is to have a name.
func (r *Rpc) CreateNamed(to transport.Addr, host string) (*Session, error) {
	return r.createTo(to, host)
}

// UseAgain makes a client session take the slot of a request that it gave up for free, as older
// clients do: the server has said nothing yet.
func (s *Session) UseAgain(num uint64) {
	e := &s.rpc.engine
	in := session.Arrival{Now: e.Now()}
	s.conn.Client.OnPast(&wire.Header{Type: wire.TypePast, ReqNum: num}, &in, e.Out)
	s.rpc.settle()
}

// HasCommands reports whether something waits for a Client's loop.
func (c *Client) HasCommands() bool { return !c.rpc.commands.Empty() }

// Numbers returns the numbers and tokens by which packets name a session, at this side and at the
// peer's.
func (s *Session) Numbers() (session, token [2]uint32) {
	end := s.conn.End
	return [2]uint32{end.Local, end.Remote}, [2]uint32{end.LocalToken, end.RemoteToken}
}

// Sealed returns a datagram with a packet as it is, sealed by the association of a session; nil if
// it has none.
func (s *Session) Sealed(pkt []byte) (sealed []byte) {
	if s.conn.End.Via == 0 {
		return nil
	}
	tx := []session.Tx{{Head: pkt, Via: s.conn.End.Via, Dst: s.conn.End.Peer}}
	s.rpc.engine.Seal(tx)
	s.rpc.engine.Kept(0)
	return bytes.Clone(tx[0].Head)
}

// MemoryUsed returns how much memory for messages the endpoints of a Nexus have, in bytes.
func (n *Nexus) MemoryUsed() int64 { return n.memory.Budget().Used() }

// Charged returns how much of it is charged to clients.
func (n *Nexus) Charged() int64 { return n.memory.Used() }
