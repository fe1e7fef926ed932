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

// addrQuota counts what one address uses of an endpoint. It is there while it has a session or a
// request at work.
type addrQuota struct {
	key      transport.Addr
	sessions int
	atWork   int // background requests that wait or run
	account  session.Account
	holder   *holder
	line     *workLine          // nil if another executor than the workers runs background handlers
	blocked  map[uint8]*blocked // by request type; nil until a handler has held up the loop
}

// quotaTable holds the quotas of an endpoint.
type quotaTable struct {
	cfg     *Shares
	book    *memoryBook
	memory  *session.Memory
	workers *workerPool // nil if there are none
	byKey   map[transport.Addr]*addrQuota
	busy    int // quotas with requests at work
}

// quotaTable returns the quotas of a new endpoint.
func (n *Nexus) quotaTable(cfg *Config) quotaTable {
	return quotaTable{
		cfg: &cfg.Shares, book: n.memory, workers: n.pool, byKey: make(map[transport.Addr]*addrQuota),
		memory: session.NewMemory(n.memory.quota(cfg.Slots, cfg.MaxMessage), session.Timing(cfg.Timing)),
	}
}

// close gives all back, when the endpoint has ended and no handler runs.
func (t *quotaTable) close() {
	for _, q := range t.byKey {
		q.account.Close()
	}
}

// keyOf returns the key of a peer's quota: its identity if it has proved one, else its address.
func (s *Shares) keyOf(a *association) transport.Addr {
	if a.quotaKey.IsValid() && !s.Off {
		return a.quotaKey
	}
	return s.key(a.addr)
}

// admits reports whether a peer may have one more session. All are in the table.
func (t *quotaTable) admits(key transport.Addr, all, limit int) bool {
	q := t.byKey[key]
	if q == nil {
		return t.cfg.fair(all, 0, limit, len(t.byKey)+1)
	}
	return t.cfg.fair(all, q.sessions, limit, len(t.byKey))
}

// join notes a server's session of an association.
func (t *quotaTable) join(s *Session, a *association) {
	key := t.cfg.keyOf(a)
	q := t.byKey[key]
	if q == nil {
		q = &addrQuota{key: key, holder: t.book.open(key)}
		q.account = session.NewAccount(q.holder)
		if t.workers != nil {
			q.line = t.workers.open(key)
		}
		t.byKey[key] = q
	}
	q.sessions++
	s.srv.quota = q
	s.sv.SetMemory(t.memory, &q.account)
}

// leave undoes join, if there was one.
func (t *quotaTable) leave(s *Session) {
	if s.srv == nil {
		return
	}
	if q := s.srv.quota; q != nil {
		s.srv.quota = nil
		q.sessions--
		t.drop(q)
	}
}

// drop forgets a quota that has nothing any more.
func (t *quotaTable) drop(q *addrQuota) {
	if q.sessions > 0 || q.atWork > 0 {
		return
	}
	q.account.Close()
	t.book.close(q.holder)
	if q.line != nil {
		t.workers.close(q.line)
	}
	delete(t.byKey, q.key)
}

// mayWork reports whether the address may have one more request at work, when all are.
func (t *quotaTable) mayWork(q *addrQuota, all, limit int) bool {
	users := t.busy
	if q.atWork == 0 {
		users++
	}
	return t.cfg.fair(all, q.atWork, limit, users)
}

// startWork notes a request at work.
func (t *quotaTable) startWork(q *addrQuota) {
	if q.atWork++; q.atWork == 1 {
		t.busy++
	}
}

// endWork undoes startWork. The request had a buffer of n bytes.
func (t *quotaTable) endWork(q *addrQuota, n int) {
	q.account.Release(n)
	if q.atWork--; q.atWork == 0 {
		t.busy--
		t.drop(q)
	}
}
