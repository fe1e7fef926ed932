package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// stubEnd is a transport that keeps what it is given, and receives what the test puts in.
type stubEnd struct {
	transport.Base
	way  transport.Path
	sent []stubPacket
	in   []transport.RxPacket
	said []transport.Hint
	// resolve stands for the name service, if not nil.
	resolve func(text string) (transport.Addr, error)
	// onWait is called in Wait, if not nil: time may pass.
	onWait func()
	waits  int // calls of Wait
	// Fails the test if what leaves is not sealed; nil without keys.
	watch func(to transport.Addr, pkt []byte)
}

type stubPacket struct {
	to   transport.Addr
	data []byte
}

func (e *stubEnd) Caps() transport.Caps {
	return transport.Caps{Name: "stub", MTU: e.way.MTU, RxRing: 1024, TxCopies: true}
}

func (e *stubEnd) Path(transport.Addr) transport.Path { return e.way }

func (e *stubEnd) TxBurst(items []transport.TxItem) (int, error) {
	for i := range items {
		data := append(append([]byte(nil), items[i].Head...), items[i].Data...)
		if e.watch != nil {
			e.watch(items[i].Dst, data)
		}
		e.sent = append(e.sent, stubPacket{items[i].Dst, data})
	}
	return len(items), nil
}

func (e *stubEnd) RxBurst(pkts []transport.RxPacket) (int, error) {
	n := copy(pkts, e.in)
	e.in = e.in[n:]
	return n, nil
}

func (e *stubEnd) Hints(hints []transport.Hint) int {
	n := copy(hints, e.said)
	e.said = e.said[n:]
	return n
}

func (e *stubEnd) Resolve(text string) (transport.Addr, error) {
	if e.resolve != nil {
		return e.resolve(text)
	}
	return stubAddr(1), nil
}

func (e *stubEnd) LocalAddr() transport.Addr { return stubAddr(0) }
func (e *stubEnd) Flush()                    {}
func (e *stubEnd) Wake()                     {}
func (e *stubEnd) Stats() transport.Stats    { return transport.Stats{} }
func (e *stubEnd) Close() error              { return nil }

func (e *stubEnd) Wait(time.Duration) error {
	if e.waits++; e.onWait != nil {
		e.onWait()
	}
	return nil
}

// stubAddr returns the address of peer i.
func stubAddr(i int) (a transport.Addr) {
	a.IP[15], a.Port = 1, uint32(1+i)
	return a
}

// stub is an endpoint of which the tests look at the parts.
type stub struct {
	version uint8 // of what receive puts in; 0: wire.Version
	*Rpc
	end *stubEnd
	now monotime.Time
	tb  failer
}

// failer is a test, also one of package rapid.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

const stubMTU = 1472

func newStub(tb failer, cfg Config, handlers ...Handler) *stub {
	tb.Helper()
	st := &stub{end: &stubEnd{way: transport.Path{MTU: stubMTU, Checksummed: true}}, now: 1e9, tb: tb}
	cfg.Simulation.Clock = func() Time { return st.now }
	if cfg.Simulation.Seed == 0 {
		cfg.Simulation.Seed = 9
	}
	if (cfg.PSK != nil || cfg.TLS != nil) && !cfg.TrustLocal {
		var c sectest.Clear[transport.Addr]
		c.Demand(stubAddr(0))
		st.end.watch = func(to transport.Addr, pkt []byte) {
			if err := c.Left(stubAddr(0), to, pkt, []byte("secret")); err != nil {
				tb.Fatal(err)
			}
		}
	}
	n, err := NewNexus(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	for i, h := range handlers {
		if err = n.Register(uint8(i), Dispatch, h); err != nil {
			tb.Fatal(err)
		}
	}
	if st.Rpc, err = n.NewRpc(st.end); err != nil {
		tb.Fatal(err)
	}
	return st
}

// pass makes a pass after d.
func (st *stub) pass(d time.Duration) {
	st.tb.Helper()
	st.now = st.now.Add(d)
	if _, err := st.RunOnce(); err != nil {
		st.tb.Fatal(err)
	}
}

// opSealed stands for a sealed datagram, which does not say what is inside.
const opSealed wire.Op = 0

// take returns the operations of the management packets sent since the last time. Nothing else may
// have been sent but what is sealed.
func (st *stub) take() (ops []wire.Op) {
	st.tb.Helper()
	for _, p := range st.end.sent {
		if wire.IsSealed(p.data) {
			ops = append(ops, opSealed)
			continue
		}
		var h wire.Header
		if err := h.Parse(p.data); err != nil || h.Type != wire.TypeMgmt {
			st.tb.Fatalf("packet %+v, %v", h, err)
		}
		ops = append(ops, wire.Op(h.ReqType))
	}
	st.end.sent = nil
	return ops
}

// receive puts a management packet of peer i in, for a session and its token.
func (st *stub) receive(
	i int, op wire.Op, number, token uint32, n int, put func(b []byte),
) {
	size := 64
	if op == wire.OpConnect {
		size = 2048 // as large as any packet that is offered
	}
	pkt := make([]byte, max(wire.HeaderSize+n, size))
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(op), MsgSize: uint32(n), Session: number,
		Version: st.version,
	}
	h.Put(pkt, 0)
	put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, token)
	st.end.in = append(st.end.in, transport.RxPacket{Data: pkt, From: stubAddr(i)})
}

// dialTo makes a client session to peer i.
func (st *stub) dialTo(i int) *Session {
	st.tb.Helper()
	s, err := st.CreateSessionTo(stubAddr(i))
	if err != nil {
		st.tb.Fatal(err)
	}
	return s
}

// lastSent returns the body of the management packet of a kind that was sent last to peer i.
func (st *stub) lastSent(i int, op wire.Op) []byte {
	st.tb.Helper()
	for at := len(st.end.sent) - 1; at >= 0; at-- {
		p := st.end.sent[at]
		var h wire.Header
		if p.to == stubAddr(i) && h.Parse(p.data) == nil && wire.Op(h.ReqType) == op {
			return p.data[wire.HeaderSize:]
		}
	}
	st.tb.Fatalf("no packet of kind %v to peer %d", op, i)
	return nil
}

// accepted lets peer i accept a session that is being opened, as an endpoint with an epoch.
func (st *stub) accepted(s *Session, i int, epoch uint64) {
	st.tb.Helper()
	st.pass(0)
	var c wire.Connect
	c.Parse(st.lastSent(i, wire.OpConnect))
	ch := wire.Challenge{Nonce: c.Nonce, Cookie: [wire.CookieSize]byte{1}}
	st.receive(i, wire.OpChallenge, c.Session, c.Token, wire.ChallengeSize, ch.Put)
	a := wire.Accept{Nonce: c.Nonce, Epoch: epoch, Session: 5, Token: 6, Offer: c.Offer}
	st.receive(i, wire.OpAccept, c.Session, c.Token, wire.AcceptSize, a.Put)
	st.pass(1000)
	if !s.Connected() {
		st.tb.Fatal("the session is not open")
	}
	st.take()
}

// connectFrom lets peer i open a session here, as an endpoint with an epoch.
func (st *stub) connectFrom(i int, epoch, nonce uint64) *Session {
	st.tb.Helper()
	p := session.Params{Slots: 8, Credits: 8, PerPacket: 1000, MaxMessage: 1 << 20}
	c := wire.Connect{Nonce: nonce, Epoch: epoch, Session: 8, Token: uint32(nonce), Offer: p.Offer()}
	c.Offer.Features = 0
	for range 2 {
		st.receive(i, wire.OpConnect, wire.NoSession, 0, wire.ConnectSize, c.Put)
		st.pass(1000)
		if c.Cookie == [wire.CookieSize]byte{} {
			var ch wire.Challenge
			ch.Parse(st.lastSent(i, wire.OpChallenge))
			c.Cookie = ch.Cookie
			st.end.sent = nil
		}
	}
	for _, conn := range st.engine.Conns() {
		if conn != nil && conn.End.Peer == stubAddr(i) && conn.End.RemoteToken == c.Token {
			return sessionOf(conn)
		}
	}
	return nil
}

// alive is the body of a packet of the peer of s about its life.
func alive(s *Session) wire.Alive {
	end := s.conn.End
	return wire.Alive{Session: end.Remote, Token: end.RemoteToken, To: end.LocalToken}
}

// stubAddrOf returns the address of peer i in a network of its own.
func stubAddrOf(i int) (a transport.Addr) {
	a = stubAddr(0)
	a.IP[7] = byte(i + 1)
	return a
}
