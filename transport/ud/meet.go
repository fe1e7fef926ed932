package ud

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	askFirst  = 10 * time.Millisecond // until a query is repeated; doubles up to askLast
	askLast   = 200 * time.Millisecond
	askAgain  = 10 * time.Millisecond // between queries for packets to an unknown address
	maxAsking = 1024                  // addresses asked at a time in that way
)

// meeting answers queries on the meeting socket, in a goroutine of its own.
type meeting struct {
	conn    *net.UDPConn
	own     card // an answer, without number
	handles *handles
	limit   int
	done    chan struct{}

	mu     sync.Mutex
	met    []*peer                 // introduced and not yet collected
	known  map[transport.Addr]card // who was introduced, as identity gives it, until forget
	asking map[transport.Addr]asked
	some   atomic.Bool // met is not empty
}

// asked is a query or probe that ask sent.
type asked struct {
	query uint64
	at    monotime.Time
}

// start makes m ready and begins to answer.
func (m *meeting) start() {
	m.asking, m.known = map[transport.Addr]asked{}, map[transport.Addr]card{}
	m.done = make(chan struct{})
	go m.serve()
}

// stop ends the goroutine and frees who was not collected.
func (m *meeting) stop() {
	m.conn.Close()
	<-m.done
}

// serve answers until the socket is closed.
func (m *meeting) serve() {
	defer close(m.done)
	var buf [cardSize + 1]byte
	for {
		n, from, err := m.conn.ReadFromUDPAddrPort(buf[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error about an answer
		}
		c, ok := parseCard(buf[:n])
		if !ok {
			continue
		}
		addr := addrOf(netip.AddrPortFrom(from.Addr(), c.port))
		switch c.kind {
		case cardQuery:
			m.answer(&c, addr, from)
		case cardProbe:
			m.reply(m.own, c.query, from)
		case cardAnswer:
			m.mu.Lock()
			q, ok := m.asking[addr]
			if ok && q.query == c.query {
				delete(m.asking, addr)
			}
			m.mu.Unlock()
			if ok && q.query == c.query {
				_ = m.introduce(&c, addr, true) // if that fails packets go on being dropped
			}
		}
	}
}

// answer introduces the sender of a query and tells it who we are.
func (m *meeting) answer(c *card, addr transport.Addr, from netip.AddrPort) {
	switch reason := m.introduce(c, addr, false); reason {
	case 0:
		m.reply(m.own, c.query, from)
	case unproven:
		m.ask(addr, cardProbe) // and when the query comes again we know more
	default:
		m.reply(card{kind: cardRefusal, reason: reason, port: m.own.port}, c.query, from)
	}
}

func (m *meeting) reply(c card, query uint64, to netip.AddrPort) {
	c.query = query
	var b [cardSize]byte
	c.encode(&b)
	_, _ = m.conn.WriteToUDPAddrPort(b[:], to) // if it gets lost the query comes again
}

// unproven is the result of introduce for a sender that claims the address of another.
const unproven = 0xFF

// identity is the part of a card by which endpoints differ.
func (c *card) identity() card {
	return card{gid: c.gid, lid: c.lid, qpn: c.qpn, qkey: c.qkey, mtu: c.mtu}
}

// introduce makes a peer of a card, for collect. It returns the reason if it cannot. A query does
// not prove that its sender has the address it claims; proven says that an answer from there does:
// only with that an address passes from one queue pair to another.
func (m *meeting) introduce(c *card, addr transport.Addr, proven bool) (reason byte) {
	if c.layer != m.own.layer || c.gidKind != m.own.gidKind ||
		c.gidKind == kindIB && [8]byte(c.gid[:8]) != [8]byte(m.own.gid[:8]) {
		return refuseMismatch
	}
	w, src := way{gid: c.gid}, source{gid: c.gid, qpn: c.qpn}
	if c.gidKind == kindIB {
		w, src = way{lid: c.lid}, source{lid: uint32(c.lid), qpn: c.qpn}
	}
	m.mu.Lock()
	full := len(m.met) >= m.limit
	old, known := m.known[addr]
	m.mu.Unlock()
	switch {
	case known && old == c.identity():
		return 0
	case known && !proven:
		return unproven
	case full:
		return refuseFull
	}
	h, err := m.handles.get(w)
	if err != nil {
		return refuseNoWay
	}
	p := &peer{addr: addr, card: c.identity(), src: src, handle: h, ah: h.ah.Handle(), qpn: c.qpn,
		qkey: c.qkey, mtu: int(min(c.mtu, m.own.mtu))}
	m.mu.Lock()
	m.met = append(m.met, p)
	m.known[addr] = c.identity()
	m.some.Store(true)
	m.mu.Unlock()
	return 0
}

// collect returns those introduced since the last call.
func (m *meeting) collect() []*peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	met := m.met
	m.met = nil
	m.some.Store(false)
	return met
}

// ask sends a query or a probe to an address, unless one is under way.
func (m *meeting) ask(addr transport.Addr, kind byte) {
	now := monotime.Now()
	m.mu.Lock()
	q, ok := m.asking[addr]
	if ok && now.Sub(q.at) < askAgain || !ok && len(m.asking) >= maxAsking && !m.makeRoom(now) {
		m.mu.Unlock()
		return
	}
	if !ok {
		q.query = number()
	}
	q.at = now
	m.asking[addr] = q
	m.mu.Unlock()
	var b [cardSize]byte
	c := m.own
	c.kind, c.query = kind, q.query
	c.encode(&b)
	_, _ = m.conn.WriteToUDPAddrPort(b[:], addr.AddrPort()) // the next packet asks again
}

// forget makes p, which left the table, unknown.
func (m *meeting) forget(p *peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[p.addr] == p.card {
		delete(m.known, p.addr)
	}
}

// makeRoom removes old entries of asking. The caller holds mu.
func (m *meeting) makeRoom(now monotime.Time) bool {
	for a, q := range m.asking {
		if now.Sub(q.at) > 100*askAgain {
			delete(m.asking, a)
		}
	}
	return len(m.asking) < maxAsking
}

// call meets the endpoint at addr: it asks until there is an answer or timeout has passed.
func (m *meeting) call(text string, addr transport.Addr, timeout time.Duration) error {
	// A socket of its own, connected, hears at once that nobody is there (ICMP).
	from, to := m.conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), addr.AddrPort()
	if !from.IsUnspecified() && from.Is4() != to.Addr().Is4() {
		return &PeerError{Addr: text, Err: ErrMismatch,
			More: errors.New("one address is of IPv4, the other of IPv6")}
	}
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)),
		net.UDPAddrFromAddrPort(to))
	if err != nil {
		return &PeerError{Addr: text, Err: ErrNoAnswer, More: err}
	}
	defer conn.Close()
	query := number()
	var b [cardSize]byte
	c := m.own
	c.kind, c.query = cardQuery, query
	c.encode(&b)
	var last error
	end := monotime.Now().Add(timeout)
	for pause := askFirst; ; pause = min(2*pause, askLast) {
		left := end.Sub(monotime.Now())
		if left <= 0 {
			return &PeerError{Addr: text, Err: ErrNoAnswer, More: last}
		}
		if _, err = conn.Write(b[:]); err == nil {
			c, err = await(conn, query, min(pause, left))
		}
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return &PeerError{Addr: text, Err: ErrNoAnswer, More: syscall.ECONNREFUSED}
		case err != nil:
			last = err
			continue
		case c.kind == cardRefusal:
			return &PeerError{Addr: text, Err: refusal(c.reason)}
		}
		if reason := m.introduce(&c, addr, true); reason != 0 {
			return &PeerError{Addr: text, Err: refusal(reason)}
		}
		return nil
	}
}

// await reads from conn until the answer to query, at most for pause.
func await(conn *net.UDPConn, query uint64, pause time.Duration) (card, error) {
	var in [cardSize + 1]byte
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return card{}, err
	}
	// A deadline in the past, set in time, spares reading the clock. One that is set late
	// makes the next await return early, and the query is repeated early.
	timer := time.AfterFunc(pause, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer timer.Stop()
	for {
		n, err := conn.Read(in[:])
		if err != nil {
			return card{}, err
		}
		if c, ok := parseCard(in[:n]); ok && c.query == query && (c.kind == cardAnswer ||
			c.kind == cardRefusal) {
			return c, nil
		}
	}
}

// number returns a number that nobody can guess.
func number() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}
