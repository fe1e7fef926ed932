package engine

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// setup says how a stub differs from the defaults of an endpoint.
type setup struct {
	PSK         [][]byte
	TLS         *tls.Config
	Latest      func() *Credentials
	Authorize   func(context.Context, *Identity) error
	DialOnly    bool
	TrustLocal  bool
	KeyUpdate   time.Duration
	Slots       int
	Credits     int
	Waiting     int
	MTU         int
	MaxMessage  int
	MaxSessions int
	MemoryLimit int64
	Checksum    bool
	NoBundles   bool
	Timing      session.Timing
	Shares      Shares
	Seed        uint64
	Oldest      uint8
	Newest      uint8
	Threads     bool // handshakes run in workers
	// OnSession is told EventOpened, EventDraining, EventSpent and EventClosed.
	OnSession func(s *Conn, ev session.EventKind)
}

// or returns v, or if that is zero the default.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// stubEnd is the network of a stub: it keeps what it is given, and receives what the test puts in.
type stubEnd struct {
	way  transport.Path
	sent []stubPacket
	in   []transport.RxPacket
	said []transport.Hint
	// Fails the test if what leaves is not sealed; nil without keys.
	watch func(to transport.Addr, pkt []byte)
}

type stubPacket struct {
	to   transport.Addr
	data []byte
}

// stubAddr returns the address of peer i.
func stubAddr(i int) (a transport.Addr) {
	a.IP[15], a.Port = 1, uint32(1+i)
	return a
}

// failer is a test, also one of package rapid.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// request is a complete request at a stub, for its handler.
type request struct {
	st   *stub
	s    *Conn
	slot uint8
	num  uint64
	data []byte
}

// answer responds with b.
func (q request) answer(b []byte) {
	buf, err := q.st.pool.Alloc(len(b))
	if err == nil {
		copy(buf.Bytes(), b)
		err = q.s.Server.Respond(q.slot, buf, q.st.in.Now, q.st.Out)
	}
	if err != nil {
		q.st.tb.Fatal(err)
	}
}

// stub is an engine with the simplest loop around it, of which the tests look at the parts.
type stub struct {
	Engine
	version     uint8 // of what receive puts in; 0: wire.Version
	end         *stubEnd
	now         monotime.Time
	tb          failer
	set         setup
	refusals    [256]wire.Code
	handlers    []func(request)
	posted      chan func() // by workers
	renewed     []transport.Addr
	done        []error // how requests ended, in that order
	silent      int     // how often a session was said to be
	unreachable int     // the same
	received    int     // packets that passes have taken
	opened      int     // quotas that were opened and are not closed
	flushes     int     // how often the transport was
	calls       map[uint32]stubCall
	ref         uint32 // of the last call
}

// stubCall is a request under way.
type stubCall struct {
	s   *Conn
	req *msgbuf.Buffer
	// ended is told how; nil if nobody asks.
	ended func(resp []byte, err error)
}

const stubMTU = 1472

// newStub makes an engine with handlers for the first request types.
func newStub(tb failer, cfg setup, handlers ...func(request)) *stub {
	tb.Helper()
	st := &stub{
		end: &stubEnd{way: transport.Path{MTU: stubMTU, Checksummed: true}}, now: 1e9, tb: tb,
		set: cfg, handlers: handlers, posted: make(chan func(), 1024),
		calls: make(map[uint32]stubCall),
	}
	for t := range st.refusals {
		if t >= len(handlers) {
			st.refusals[t] = wire.CodeNoHandler
		}
	}
	timing, err := cfg.Timing.Fill()
	if err != nil {
		tb.Fatal(err)
	}
	cfg.Shares.IPv4Bits, cfg.Shares.IPv6Bits = or(cfg.Shares.IPv4Bits, 32), or(cfg.Shares.IPv6Bits, 64)
	budget := msgbuf.NewBudget(or(cfg.MemoryLimit, 1<<30))
	maxMessage := or(cfg.MaxMessage, msgbuf.DefaultMaxMessage)
	pool, err := msgbuf.NewPool(msgbuf.Config{MaxMessage: maxMessage, Budget: budget})
	if err != nil {
		tb.Fatal(err)
	}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], or(cfg.Seed, 9))
	seed[8] = 1
	c := &Config{
		Slots: or(cfg.Slots, session.DefaultSlots), Credits: cfg.Credits,
		Waiting: or(cfg.Waiting, session.MaxSlots), MaxMessage: maxMessage,
		MaxSessions: or(cfg.MaxSessions, 32768), MaxQueue: 65536,
		MTU: min(or(cfg.MTU, stubMTU), stubMTU), RxRing: 1024, Burst: 256, TxCopies: true,
		Checksum: cfg.Checksum, NoBundles: cfg.NoBundles, Timing: timing, Shares: cfg.Shares,
		DialOnly: cfg.DialOnly, TrustLocal: cfg.TrustLocal, KeyUpdate: or(cfg.KeyUpdate, time.Hour),
		Oldest: or(cfg.Oldest, wire.OldVersion), Newest: or(cfg.Newest, wire.Version),
		Logger: slog.New(slog.DiscardHandler), Inline: !cfg.Threads, Seeded: true, Pool: pool,
		Rand: rand.New(rand.NewChaCha8(seed)), Book: NewBook(budget, !cfg.Shares.Off), Now: st.now,
		Refusals: &st.refusals, NewConn: newStubConn,
		Pacing: func(*transport.Path) *session.Pacing { return nil },
	}
	if cfg.PSK != nil || cfg.TLS != nil {
		c.Keys = NewKeys(KeysConfig{
			TLS: cfg.TLS, PSK: cfg.PSK, Latest: cfg.Latest, Authorize: cfg.Authorize,
			HookTime: time.Minute, Inline: !cfg.Threads, Logger: slog.New(slog.DiscardHandler),
		})
		if !cfg.TrustLocal {
			st.end.demand(tb)
		}
	}
	st.Init(c, stubPort{st})
	return st
}

// demand fails a test when something secret leaves in the clear.
func (e *stubEnd) demand(tb failer) {
	var c sectest.Clear[transport.Addr]
	c.Demand(stubAddr(0))
	e.watch = func(to transport.Addr, pkt []byte) {
		if err := c.Left(stubAddr(0), to, pkt, []byte("secret")); err != nil {
			tb.Fatal(err)
		}
	}
}

// newStubConn makes an end of a session whose Owner is nil.
func newStubConn(client bool) *Conn {
	if client {
		end := new(struct {
			Conn
			half session.Client
		})
		end.InitClient(&end.half)
		return &end.Conn
	}
	end := new(struct {
		Conn
		half ServerHalf
	})
	end.InitServer(&end.half)
	return &end.Conn
}

// stubPort is a stub as its engine sees it.
type stubPort struct{ st *stub }

func (p stubPort) ReadClock() monotime.Time             { return p.st.now }
func (p stubPort) PathTo(transport.Addr) transport.Path { return p.st.end.way }
func (p stubPort) IsPrivate(transport.Addr) bool        { return p.st.end.way.Private }
func (p stubPort) Renew(to transport.Addr)              { p.st.renewed = append(p.st.renewed, to) }
func (p stubPort) QuotaOpened(*Quota)                   { p.st.opened++ }
func (p stubPort) QuotaClosed(*Quota)                   { p.st.opened-- }

func (p stubPort) Drain() {
	p.st.transmit()
	p.st.Out.Flushed()
	p.st.flushes++
}

func (p stubPort) Hints() []transport.Hint {
	said := p.st.end.said
	p.st.end.said = nil
	return said
}

func (p stubPort) Post(fn func()) bool {
	p.st.posted <- fn
	return true
}

// pass makes a pass after d, as the loop of an Rpc does.
func (st *stub) pass(d time.Duration) {
	st.tb.Helper()
	st.now = st.now.Add(d)
	st.SetNow(st.now)
	for len(st.posted) > 0 {
		(<-st.posted)()
	}
	st.settle()
	st.Recycle()
	rx := st.end.in
	st.end.in = nil
	st.received += len(rx)
	if st.Sealing() {
		st.OpenBurst(rx)
	}
	if len(rx) > 1 && st.Cold() {
		st.Prefetch(rx)
	}
	for i := range rx {
		st.take1(&rx[i], i)
	}
	if st.HasConnects() {
		st.AnswerConnects()
		st.settle()
	}
	if st.Paced() > 0 {
		st.Release()
		st.settle()
	}
	if st.now >= st.NextScan() {
		st.Tick()
		st.settle()
	}
	st.transmit()
}

// take1 takes the i-th packet of a burst.
func (st *stub) take1(p *transport.RxPacket, i int) {
	via := uint32(0)
	if st.Sealing() {
		var ok bool
		if via, ok = st.OpenedBy(i); !ok {
			return
		}
	}
	if !wire.IsBundle(p.Data) {
		st.OnPacket(p, via)
		st.settle()
		return
	}
	var b Bundle
	if st.OpenBundle(&b, p, via) {
		for st.OnBundled(&b) {
			st.settle()
		}
	}
}

// transmit sends what is queued.
func (st *stub) transmit() {
	st.Out.Finish(0)
	if st.Sealing() {
		st.Seal(st.Out.Tx)
	}
	for i := range st.Out.Tx {
		t := &st.Out.Tx[i]
		data := append(append([]byte(nil), t.Head...), t.Data...)
		if st.end.watch != nil {
			st.end.watch(t.Dst, data)
		}
		st.end.sent = append(st.end.sent, stubPacket{t.Dst, data})
	}
	st.Out.Reset()
	if st.Sealing() {
		st.Kept(0)
	}
}

// settle acts on the outcomes as an Rpc does.
func (st *stub) settle() {
	for ev := st.Out.Next(); ev != nil; ev = st.Out.Next() {
		switch ev.Kind {
		case session.EventRequest:
			typ, num, data := st.Hand().Server.Request(ev.Slot)
			st.handlers[typ](request{st, st.Hand(), ev.Slot, num, data})
		case session.EventDone:
			st.endCall(ev.Ref, ev.Resp, nil)
		case session.EventError:
			st.endCall(ev.Ref, nil, errAnswer)
		case session.EventFailed:
			st.endCall(ev.Ref, nil, OwnError(ev.Err))
		case session.EventFlush:
			stubPort{st}.Drain()
		case session.EventPace, session.EventLate, session.EventBroken:
			st.Settle(ev)
		case session.EventOpened, session.EventDraining, session.EventSpent, session.EventClosed:
			s := st.Conn(ev.Session)
			if ev.Kind == session.EventClosed {
				st.Ended(s)
			}
			if st.set.OnSession != nil && !s.Hidden() {
				st.set.OnSession(s, ev.Kind)
			}
		case session.EventFreed:
			st.Deactivate(st.Conn(ev.Session))
		case session.EventSilent:
			st.silent++
		case session.EventUnreachable:
			st.unreachable++
		}
	}
}

// errAnswer stands for a server's error.
var errAnswer = NotRun("answered with an error")

// endCall follows the end of a request, with a response or an error.
func (st *stub) endCall(ref uint32, resp *msgbuf.Buffer, err error) {
	st.done = append(st.done, err)
	c := st.calls[ref]
	if c.ended != nil {
		var data []byte
		if resp != nil {
			data = resp.Bytes()
		}
		c.ended(data, err)
	}
	if resp != nil {
		resp.Return()
		resp.Free()
	}
	if c.s != nil {
		c.req.Return()
		c.req.Free()
		delete(st.calls, ref)
		st.Deactivate(c.s)
	}
}

// start begins a request of n bytes in a session. Its end is noted in done.
func (st *stub) start(s *Conn, typ uint8, n int) {
	st.tb.Helper()
	st.call(s, typ, make([]byte, n), nil)
}

// call begins a request in a session. Its end is noted in done, and ended is told if it is not nil.
func (st *stub) call(s *Conn, typ uint8, data []byte, ended func(resp []byte, err error)) {
	st.tb.Helper()
	st.SetNow(st.now)
	req, err := st.pool.Alloc(len(data))
	if err == nil {
		copy(req.Bytes(), data)
		err = req.Lend()
	}
	if err == nil {
		st.ref++
		st.calls[st.ref] = stubCall{s, req, ended}
		op := session.Op{Req: req, ReqType: typ, Ref: st.ref}
		err = s.Client.Start(op, 0, st.in.Now, st.Out)
	}
	if err != nil {
		st.tb.Fatal(err)
	}
	st.Activate(s)
}

// closeConn ends a session from this side.
func (st *stub) closeConn(s *Conn) {
	st.SetNow(st.now)
	st.CloseConn(s)
	st.settle()
}

// close ends the endpoint. All message buffers must have come back.
func (st *stub) close() {
	st.tb.Helper()
	st.SetNow(st.now)
	st.CloseAll()
	st.settle()
	stubPort{st}.Drain()
	st.quotas.Close()
	if err := st.pool.Close(); err != nil {
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
func (st *stub) dialTo(i int) *Conn {
	st.tb.Helper()
	st.SetNow(st.now)
	s, err := st.Dial(stubAddr(i), "", st.cfg.Timing.ConnectTimeout)
	if err != nil {
		st.tb.Fatal(err)
	}
	st.settle()
	return s
}

// accepted lets peer i accept a session that is being opened, as an endpoint with an epoch.
func (st *stub) accepted(s *Conn, i int, epoch uint64) {
	st.tb.Helper()
	c := s.dialer.Connect
	ch := wire.Challenge{Nonce: c.Nonce, Cookie: [wire.CookieSize]byte{1}}
	st.receive(i, wire.OpChallenge, c.Session, c.Token, wire.ChallengeSize, ch.Put)
	a := wire.Accept{Nonce: c.Nonce, Epoch: epoch, Session: 5, Token: 6, Offer: c.Offer}
	st.receive(i, wire.OpAccept, c.Session, c.Token, wire.AcceptSize, a.Put)
	st.pass(1000)
	if !s.Open() {
		st.tb.Fatal("the session is not open")
	}
	st.take()
}

// alive is the body of a packet of the peer of s about its life.
func alive(s *Conn) wire.Alive {
	return wire.Alive{Session: s.End.Remote, Token: s.End.RemoteToken, To: s.End.LocalToken}
}

// connectFrom lets peer i open a session here, as an endpoint with an epoch.
func (st *stub) connectFrom(i int, epoch, nonce uint64) *Conn {
	st.tb.Helper()
	return st.connectWith(i, epoch, nonce, 0)
}

// connectOffer is connectFrom with another offer.
func (st *stub) connectOffer(i int, epoch, nonce uint64, o wire.Offer) *Conn {
	st.tb.Helper()
	c := wire.Connect{Nonce: nonce, Epoch: epoch, Session: 8, Token: uint32(nonce), Offer: o}
	from := stubAddr(i)
	body := make([]byte, wire.ConnectSize)
	c.Put(body)
	c.Cookie = st.handshakes.cookies.Make(&from, body, st.now)
	st.receive(i, wire.OpConnect, wire.NoSession, 0, wire.ConnectSize, c.Put)
	st.pass(1000)
	return st.table.byKey[connKey{from: from, nonce: nonce}]
}
