package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

var (
	clientOffer = wire.Offer{Credits: 32, Slots: 8, MTU: 9000, MaxMessage: 1 << 20}
	serverOffer = wire.Offer{Credits: 16, Slots: 12, MTU: 9000, MaxMessage: 8 << 20}
)

// acceptor is a server's end of the handshake as an endpoint would have it.
type acceptor struct {
	t        testing.TB
	cookies  *Cookies
	offer    wire.Offer
	refuse   wire.Code
	sessions map[uint64]*wire.Accept // by nonce
	out      *Out
}

func newAcceptor(t testing.TB) *acceptor {
	return &acceptor{
		t: t, cookies: NewCookies([16]byte{1, 2, 3}), offer: serverOffer,
		sessions: map[uint64]*wire.Accept{}, out: NewOut(4, false),
	}
}

// mgmt opens a management packet and checks that it was sealed with token.
func mgmt(t testing.TB, p dgram, token uint32) (wire.Op, wire.Header, []byte) {
	t.Helper()
	h := p.header()
	if h.Type != wire.TypeMgmt || wire.OpenMgmt(p.raw) != token {
		t.Fatalf("not a management packet with token %#x: %+v, token %#x", token, h, wire.OpenMgmt(p.raw))
	}
	return wire.Op(h.ReqType), h, p.raw[wire.HeaderSize:]
}

func (a *acceptor) take() (ps []dgram) {
	for _, t := range a.out.Tx {
		if t.Dst != clientHost {
			a.t.Fatalf("packet for %v", t.Dst)
		}
		ps = append(ps, flatten(t))
	}
	a.out.Reset()
	return ps
}

func (a *acceptor) answer(c *wire.Connect, op wire.Op, n, size int, put func([]byte)) {
	a.out.Mgmt(&clientHost, 0, wire.Version, op, c.Session, c.Token, n, size, put)
}

// on takes a packet of the client and returns the answers.
func (a *acceptor) on(p dgram, now monotime.Time) []dgram {
	op, h, body := mgmt(a.t, p, 0)
	if op != wire.OpConnect && op != wire.OpOpen || h.Session != wire.NoSession {
		a.t.Fatalf("got %v for session %d", op, h.Session)
	}
	var c wire.Connect
	c.Parse(body)
	whole := body[:h.MsgSize]
	if op == wire.OpConnect && !a.cookies.Check(&clientHost, &c, whole, now) {
		ch := wire.Challenge{Nonce: c.Nonce, Cookie: a.cookies.Make(&clientHost, whole, now)}
		a.answer(&c, wire.OpChallenge, wire.ChallengeSize, 0, ch.Put)
		return a.take()
	}
	if len(p.raw) != int(c.Offer.MTU) {
		a.t.Errorf("a Connect with a cookie has %d bytes, its offer says %d", len(p.raw), c.Offer.MTU)
	}
	if a.refuse != wire.CodeOK {
		r := wire.Refuse{Nonce: c.Nonce, Code: a.refuse}
		a.answer(&c, wire.OpRefuse, wire.RefuseSize, 0, r.Put)
		return a.take()
	}
	acc := a.sessions[c.Nonce]
	if acc == nil {
		acc = &wire.Accept{Nonce: c.Nonce, Epoch: 5, Session: serverSession, Token: serverToken,
			Offer: Agree(c.Offer, a.offer)}
		a.sessions[c.Nonce] = acc
	}
	acc.Offer.MTU = min(acc.Offer.MTU, c.Offer.MTU)
	mtu := int(acc.Offer.MTU)
	a.answer(&c, wire.OpAccept, wire.AcceptSize, mtu, acc.Put)
	return a.take()
}

// dialRig is a dialer and an acceptor on a path with a delay and rules for loss.
type dialRig struct {
	t       testing.TB
	d       *Dialer
	a       *acceptor
	delay   time.Duration // one way
	via     uint32        // the association on which the session opens after the Challenge, if not 0
	drop    func(i int, toServer bool, p dgram) bool
	copies  int
	now     monotime.Time
	flights []flight
	sent    int
	cout    *Out
	ticks   int
	params  Params
	rtt     time.Duration
	err     error
	over    bool
}

type flight struct {
	at       monotime.Time
	toServer bool
	p        dgram
}

func newDialRig(t testing.TB) *dialRig {
	timing, err := Timing{}.Fill()
	if err != nil {
		t.Fatal(err)
	}
	c := wire.Connect{Nonce: 77, Epoch: 3, Session: clientSession, Token: clientToken,
		Offer: clientOffer}
	return &dialRig{
		t: t, d: NewDialer(serverHost, c, timing, 0), a: newAcceptor(t),
		delay: ms / 20, copies: 1, cout: NewOut(4, false),
	}
}

func (r *dialRig) send(toServer bool, ps []dgram) {
	for _, p := range ps {
		i := r.sent
		r.sent++
		if r.drop != nil && r.drop(i, toServer, p) {
			continue
		}
		for range r.copies {
			r.flights = append(r.flights, flight{r.now.Add(r.delay), toServer, p})
		}
	}
}

func (r *dialRig) sendClient() {
	for _, t := range r.cout.Tx {
		if t.Dst != serverHost {
			r.t.Fatalf("packet for %v", t.Dst)
		}
		p := flatten(t)
		op, via := wire.Op(p.header().ReqType), uint32(0)
		if op == wire.OpOpen {
			via = r.via
		}
		if t.Via != via {
			r.t.Fatalf("%v by association %d", op, t.Via)
		}
		r.send(true, []dgram{p})
	}
	r.cout.Reset()
}

func (r *dialRig) onClient(p dgram) {
	op, h, body := mgmt(r.t, p, clientToken)
	if h.Session != clientSession {
		r.t.Fatalf("packet for session %d", h.Session)
	}
	switch op {
	case wire.OpChallenge:
		var c wire.Challenge
		c.Parse(body)
		if r.via != 0 {
			r.d.Open(r.via, r.now, r.cout)
		} else {
			r.d.OnChallenge(&c, r.now, r.cout)
		}
	case wire.OpAccept:
		var a wire.Accept
		a.Parse(body)
		if p, rtt, ok, err := r.d.OnAccept(&a, r.now); ok {
			r.params, r.rtt, r.err, r.over = p, rtt, err, true
		}
	case wire.OpRefuse:
		var f wire.Refuse
		f.Parse(body)
		if err, ok := r.d.OnRefuse(&f); ok {
			r.err, r.over = err, true
		}
	}
	r.sendClient()
}

// run plays the handshake, from event to event, until it is over.
func (r *dialRig) run() {
	for !r.over {
		next := r.d.NextAt()
		at := -1
		for i, f := range r.flights {
			if f.at <= next {
				next, at = f.at, i
			}
		}
		r.now = max(r.now, next)
		if at >= 0 {
			f := r.flights[at]
			r.flights = append(r.flights[:at], r.flights[at+1:]...)
			if f.toServer {
				r.send(false, r.a.on(f.p, r.now))
			} else {
				r.onClient(f.p)
			}
			continue
		}
		if r.ticks++; r.ticks > 1000 {
			r.t.Fatalf("at %d ns the dialer still wants a tick at %d", r.now, r.d.NextAt())
		}
		if err := r.d.Tick(r.now, r.cout); err != nil {
			r.err, r.over = err, true
		}
		r.sendClient()
	}
}

func (r *dialRig) wantOpen(mtu int) {
	r.t.Helper()
	want := Params{Slots: 8, Credits: 16, PerPacket: mtu - wire.HeaderSize, MaxMessage: 1 << 20,
		Version: wire.Version}
	if r.err != nil || r.params != want {
		r.t.Fatalf("at %v ms: %+v, %v; want %+v", r.now/ms, r.params, r.err, want)
	}
	if got := int(r.a.sessions[77].Offer.MTU); got != mtu {
		r.t.Errorf("the client has MTU %d, the server %d", mtu, got)
	}
	if len(r.a.sessions) != 1 {
		r.t.Errorf("%d sessions at the server", len(r.a.sessions))
	}
}

func TestHandshake(t *testing.T) {
	r := newDialRig(t)
	r.run()
	r.wantOpen(9000)
	if r.sent != 4 || r.now.Sub(0) != 4*r.delay || r.rtt != 2*r.delay {
		t.Errorf("%d packets, %d ns, RTT %d ns", r.sent, r.now, r.rtt)
	}
}

func TestHandshakeLoss(t *testing.T) {
	for lost := range 4 {
		r := newDialRig(t)
		r.drop = func(i int, _ bool, _ dgram) bool { return i == lost }
		r.run()
		r.wantOpen(9000)
		if resent := lost >= 2; resent != (r.rtt == 0) {
			t.Errorf("packet %d lost: RTT %d ns", lost, r.rtt)
		}
	}
}

func TestHandshakeDuplicates(t *testing.T) {
	r := newDialRig(t)
	r.copies = 3
	r.run()
	r.wantOpen(9000)
}

// TestHandshakeMTU: the path does not carry large packets, in one or both directions.
func TestHandshakeMTU(t *testing.T) {
	for _, c := range []struct{ path, want int }{{9000, 9000}, {8999, 1452}, {1451, 1232},
		{1231, MinMTU}, {MinMTU, MinMTU}} {
		for _, dir := range []string{"to server", "to client", "both"} {
			r := newDialRig(t)
			r.drop = func(_ int, toServer bool, p dgram) bool {
				return len(p.raw) > c.path && (dir == "both" || toServer == (dir == "to server"))
			}
			r.run()
			r.wantOpen(c.want)
		}
	}
	r := newDialRig(t)
	r.drop = func(_ int, _ bool, p dgram) bool { return len(p.raw) > MinMTU-1 }
	if r.run(); !errors.Is(r.err, ErrTimeout) {
		t.Errorf("a path that carries less than the least: %v", r.err)
	}
}

// TestHandshakeLongPath: a long round trip is no reason to lower the MTU, and an
// Accept that is overtaken by a smaller offer is no reason to give up.
func TestHandshakeLongPath(t *testing.T) {
	for _, rtt := range []time.Duration{1, 50, 100, 200, 300, 500} {
		r := newDialRig(t)
		r.delay = rtt * ms / 2
		r.run()
		r.wantOpen(9000)
	}
	r := newDialRig(t)
	r.delay = 25 * ms
	r.drop = func(i int, toServer bool, p dgram) bool {
		if toServer && len(p.raw) > 1000 { // the path becomes slow after the Challenge
			r.delay = 350 * ms
		}
		return false
	}
	r.run()
	r.wantOpen(1452)
}

func TestHandshakeTimeout(t *testing.T) {
	r := newDialRig(t)
	r.drop = func(int, bool, dgram) bool { return true }
	r.run()
	if !errors.Is(r.err, ErrTimeout) || r.now != 3000*ms {
		t.Errorf("%v at %d ns", r.err, r.now)
	}
	if r.sent < fastTries+40 || r.sent > fastTries+55 || r.ticks > r.sent+1 {
		t.Errorf("%d packets and %d ticks in 3 s", r.sent, r.ticks)
	}
}

func TestHandshakeRefused(t *testing.T) {
	for code, also := range map[wire.Code]error{wire.CodeExhausted: ErrExhausted,
		wire.CodeBadOffer: ErrBadOffer, wire.CodeShutdown: ErrDraining, 200: ErrRefused} {
		r := newDialRig(t)
		r.a.refuse = code
		r.run()
		if !errors.Is(r.err, ErrRefused) || !errors.Is(r.err, also) {
			t.Errorf("code %d: %v", code, r.err)
		}
	}
}

// TestHandshakeStrangers: answers with a wrong nonce, or to a Connect that was not
// sent, change nothing.
func TestHandshakeStrangers(t *testing.T) {
	r := newDialRig(t)
	good := wire.Accept{Nonce: 77, Session: 1, Token: 1, Offer: Agree(clientOffer, serverOffer)}
	if _, _, ok, _ := r.d.OnAccept(&good, 0); ok {
		t.Error("an Accept before the Challenge was taken")
	}
	r.d.OnChallenge(&wire.Challenge{Nonce: 78, Cookie: [16]byte{1}}, 0, r.cout)
	if len(r.cout.Tx) != 0 {
		t.Error("a Challenge with a wrong nonce was answered")
	}
	if _, ok := r.d.OnRefuse(&wire.Refuse{Nonce: 78, Code: 1}); ok {
		t.Error("a Refuse with a wrong nonce was taken")
	}
	r.d.OnChallenge(&wire.Challenge{Nonce: 77, Cookie: [16]byte{1}}, 0, r.cout)
	r.d.OnChallenge(&wire.Challenge{Nonce: 77, Cookie: [16]byte{1}}, 0, r.cout)
	if len(r.cout.Tx) != 1 {
		t.Errorf("%d answers to a Challenge and its duplicate", len(r.cout.Tx))
	}
	bad := good
	bad.Nonce = 78
	if _, _, ok, _ := r.d.OnAccept(&bad, 0); ok {
		t.Error("an Accept with a wrong nonce was taken")
	}
	if _, _, ok, err := r.d.OnAccept(&good, 0); !ok || err != nil {
		t.Errorf("good Accept: %v, %v", ok, err)
	}
}

// TestAcceptBeyondOffer: no field may exceed what was offered, or leave the limits.
func TestAcceptBeyondOffer(t *testing.T) {
	for name, change := range map[string]func(*wire.Offer){
		"credits": func(o *wire.Offer) { o.Credits = clientOffer.Credits + 1 },
		"slots":   func(o *wire.Offer) { o.Slots = clientOffer.Slots * 2 },
		"mtu":     func(o *wire.Offer) { o.MTU = clientOffer.MTU + 1 },
		"message": func(o *wire.Offer) { o.MaxMessage = clientOffer.MaxMessage + 1 },
		"slots 3": func(o *wire.Offer) { o.Slots = 3 },
		"none":    func(o *wire.Offer) { o.Credits = 0 },
		"no checksum, though wanted": func(o *wire.Offer) {
			o.Features = 0
		},
		"a feature that was not offered": func(o *wire.Offer) { o.Features |= 1 << 31 },
	} {
		r := newDialRig(t)
		r.d.Connect.Offer.Features = wire.FeatureChecksum
		r.d.OnChallenge(&wire.Challenge{Nonce: 77, Cookie: [16]byte{1}}, 0, r.cout)
		a := wire.Accept{Nonce: 77, Offer: Agree(r.d.Connect.Offer, serverOffer)}
		if _, _, ok, err := r.d.OnAccept(&a, 0); !ok || err != nil || a.Offer.Features == 0 {
			t.Fatalf("good Accept: %v, %v", ok, err)
		}
		change(&a.Offer)
		if _, _, ok, err := r.d.OnAccept(&a, 0); !ok || !errors.Is(err, ErrBadOffer) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

// TestRefuseCodes: a refusal without a reason is none. One for a reason that refuses no session, or
// that nobody knows, has its number in the error and no word that would mislead.
func TestRefuseCodes(t *testing.T) {
	own := map[wire.Code]string{
		wire.CodeExhausted: "resource exhausted", wire.CodeShutdown: "shutting down",
		wire.CodeBadOffer: "bad offer", wire.CodeInsecure: "security demanded by one side only",
		wire.CodeDenied: "identity refused", wire.CodeNoHandler: "takes no sessions",
	}
	for code := range wire.Code(255) {
		r := newDialRig(t)
		err, ok := r.d.OnRefuse(&wire.Refuse{Nonce: 77, Code: code})
		if ok != (code != wire.CodeOK) {
			t.Fatalf("code %d: taken %v", code, ok)
		}
		text := own[code]
		if text == "" {
			text = fmt.Sprintf("reason that this version does not know, %d", code)
		}
		if ok && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), text)) {
			t.Errorf("code %d: %v", code, err)
		}
	}
}
