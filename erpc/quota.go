package erpc

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

// Shares says how clients share a server. Sessions, requests at work in background handlers, their
// workers, and memory are given to any client until three quarters of the limit are in use. The
// last quarter is for addresses that have less than their share: the limit, divided by the number
// of addresses that use some of it and one more. So one address alone gets three quarters.
//
// Clients behind one address translator (NAT), or in one IPv6 network, count as one.
type Shares struct {
	// Off lets one address have everything.
	Off bool
	// IPv4Bits and IPv6Bits are how much of an address counts. Defaults: 32 and 64. Link-local
	// addresses, and those of shared memory, count in full.
	IPv4Bits, IPv6Bits int
}

// fill puts in the defaults.
func (s *Shares) fill() error {
	for _, f := range []struct {
		v        *int
		def, max int
		name     string
	}{{&s.IPv4Bits, 32, 32, "IPv4Bits"}, {&s.IPv6Bits, 64, 128, "IPv6Bits"}} {
		if *f.v == 0 {
			*f.v = f.def
		}
		if *f.v < 1 || *f.v > f.max {
			return &ConfigError{"Shares." + f.name,
				fmt.Sprintf("is %d, must be 1 to %d", *f.v, f.max)}
		}
	}
	return nil
}

// discardOnly is 100::/64 (RFC 6666), where transport/shm has its addresses.
const discardOnly = 0x0100_0000_0000_0000

// key returns the address for which a peer counts.
func (s *Shares) key(a transport.Addr) transport.Addr {
	if binary.BigEndian.Uint64(a.IP[:]) == discardOnly {
		return a
	}
	a.Port = 0
	ip := netip.AddrFrom16(a.IP)
	bits := s.IPv6Bits
	switch {
	case ip.Is4In6():
		bits = 96 + s.IPv4Bits
	case ip.IsLinkLocalUnicast():
		return a
	}
	p, _ := ip.Prefix(bits) // in range
	a.IP = p.Addr().As16()
	return a
}

// lastQuarter returns how much of a limit is given to any client.
func lastQuarter[T int | int64](limit T) T { return limit - limit/4 }

// fair reports whether one more of limit may go to an address that has own of all, when users
// addresses have some of it, this one included.
func (s *Shares) fair(all, own, limit, users int) bool {
	switch {
	case all >= limit:
		return false
	case s.Off || all < lastQuarter(limit):
		return true
	}
	return own < limit/(users+1)
}

// share counts what one address uses of an endpoint. It is there while it has a session or a
// request at work.
type share struct {
	key      transport.Addr
	sessions int
	atWork   int // background requests that wait or run
	account  session.Account
	holder   *holder
	line     *workLine          // nil if another executor than the workers runs background handlers
	blocked  map[uint8]*blocked // by request type; nil until a handler has held up the loop
}

// shareTable holds the shares of an endpoint.
type shareTable struct {
	cfg     *Shares
	book    *memoryBook
	memory  *session.Memory
	workers *workerPool // nil if there are none
	byKey   map[transport.Addr]*share
	busy    int // shares with requests at work
}

// shareTable returns the shares of a new endpoint.
func (n *Nexus) shareTable(cfg *Config) shareTable {
	return shareTable{
		cfg: &cfg.Shares, book: n.memory, workers: n.pool, byKey: make(map[transport.Addr]*share),
		memory: session.NewMemory(n.memory.quota(cfg.Slots, cfg.MaxMessage), session.Timing(cfg.Timing)),
	}
}

// close gives back what handlers that still run have of their requests, when the endpoint ends.
func (t *shareTable) close() {
	for _, sh := range t.byKey {
		sh.account.Close()
	}
}

// keyOf returns the key of a peer's share: its identity if it has proved one, else its address.
func (s *Shares) keyOf(a *association) transport.Addr {
	if a.share.IsValid() && !s.Off {
		return a.share
	}
	return s.key(a.addr)
}

// admits reports whether a peer may have one more session. All are in the table.
func (t *shareTable) admits(key transport.Addr, all, limit int) bool {
	sh := t.byKey[key]
	if sh == nil {
		return t.cfg.fair(all, 0, limit, len(t.byKey)+1)
	}
	return t.cfg.fair(all, sh.sessions, limit, len(t.byKey))
}

// join notes a server's session of an association.
func (t *shareTable) join(s *Session, a *association) {
	key := t.cfg.keyOf(a)
	sh := t.byKey[key]
	if sh == nil {
		sh = &share{key: key, holder: t.book.open(key)}
		sh.account = session.NewAccount(sh.holder)
		if t.workers != nil {
			sh.line = t.workers.open(key)
		}
		t.byKey[key] = sh
	}
	sh.sessions++
	s.srv.share = sh
	s.sv.SetMemory(t.memory, &sh.account)
}

// leave undoes join, if there was one.
func (t *shareTable) leave(s *Session) {
	if s.srv == nil {
		return
	}
	if sh := s.srv.share; sh != nil {
		s.srv.share = nil
		sh.sessions--
		t.drop(sh)
	}
}

// drop forgets a share that has nothing any more.
func (t *shareTable) drop(sh *share) {
	if sh.sessions > 0 || sh.atWork > 0 {
		return
	}
	sh.account.Close()
	t.book.close(sh.holder)
	if sh.line != nil {
		t.workers.close(sh.line)
	}
	delete(t.byKey, sh.key)
}

// mayWork reports whether the address may have one more request at work, when all are.
func (t *shareTable) mayWork(sh *share, all, limit int) bool {
	users := t.busy
	if sh.atWork == 0 {
		users++
	}
	return t.cfg.fair(all, sh.atWork, limit, users)
}

// startWork notes a request at work.
func (t *shareTable) startWork(sh *share) {
	if sh.atWork++; sh.atWork == 1 {
		t.busy++
	}
}

// endWork undoes startWork. The request had a buffer of n bytes.
func (t *shareTable) endWork(sh *share, n int) {
	sh.account.Release(n)
	if sh.atWork--; sh.atWork == 0 {
		t.busy--
		t.drop(sh)
	}
}
