package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// connectPkt returns a Connect of an attempt, padded to size bytes.
func connectPkt(c *wire.Connect, ext []byte, size int) []byte {
	n := wire.ConnectSize + len(ext)
	pkt := make([]byte, max(size, wire.HeaderSize+n))
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect), MsgSize: uint32(n), Session: wire.NoSession,
	}
	h.Put(pkt, 0)
	c.Put(pkt[wire.HeaderSize:])
	copy(pkt[wire.HeaderSize+wire.ConnectSize:], ext)
	wire.SealMgmt(pkt, 0)
	return pkt
}

// attempt returns a Connect of peer i with a cookie that is good for it and for extensions.
func (st *stub) attempt(i int, nonce uint64, ext []byte) *wire.Connect {
	c := &wire.Connect{Nonce: nonce, Epoch: 7, Session: 8, Token: 9, Offer: wire.Offer{
		Credits: 8, Slots: 8, MTU: 1400, MaxMessage: 1 << 20,
	}}
	from := stubAddr(i)
	body := connectPkt(c, ext, 0)[wire.HeaderSize:]
	c.Cookie = st.handshakes.cookies.Make(&from, body, st.now)
	return c
}

// put hands in a packet of peer i.
func (st *stub) put(i int, pkt []byte) {
	st.end.in = append(st.end.in, transport.RxPacket{Data: pkt, From: stubAddr(i)})
}

// sizes returns the sizes of the packets sent since the last time.
func (st *stub) sizes() (n []int) {
	for _, p := range st.end.sent {
		n = append(n, len(p.data))
	}
	st.end.sent = nil
	return n
}

// TestShortConnect: a Connect with a good cookie gets an answer only if it is as large as the
// answer would be, and its extensions are whole.
func TestShortConnect(t *testing.T) {
	st := newStub(t, setup{})
	known := wire.AppendExtension(nil, wire.Extension{Type: 0xABCD, Value: []byte("of the future")})
	for i, c := range []struct {
		size int
		ext  []byte
		want string
	}{
		{1399, nil, "[]"}, {88, nil, "[]"}, {1400, nil, "[1400]"}, {9000, nil, "[1400]"},
		{1400, known, "[1400]"}, {1400, known[:len(known)-1], "[]"},
	} {
		c2 := st.attempt(1, uint64(i+1), c.ext)
		st.put(1, connectPkt(c2, c.ext, c.size))
		st.pass(1000)
		if got := fmt.Sprint(st.sizes()); got != c.want {
			t.Errorf("case %d: %d bytes, answered by %s, want %s", i, c.size, got, c.want)
		}
	}
	if st.Live() != 3 {
		t.Errorf("%d sessions", st.Live())
	}
	// Extensions that the cookie was not made for.
	c := st.attempt(1, 99, nil)
	st.put(1, connectPkt(c, known, 1400))
	st.pass(1000)
	if ops := st.take(); len(ops) != 1 || ops[0] != wire.OpChallenge {
		t.Errorf("other extensions than before: answered by %v", ops)
	}
}

// TestDamagedConnect: one wrong bit anywhere, and a Connect with a good cookie opens nothing.
func TestDamagedConnect(t *testing.T) {
	st := newStub(t, setup{})
	good := connectPkt(st.attempt(1, 5, nil), nil, 1400)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 4
		st.put(1, bad)
		st.pass(1000)
		if st.Live() != 0 {
			t.Fatalf("byte %d is damaged, and a session is open", i)
		}
	}
	if st.stats.DropToken < 1300 {
		t.Errorf("%d packets were dropped for their checksum", st.stats.DropToken)
	}
	st.put(1, good)
	if st.pass(1000); st.Live() != 1 {
		t.Errorf("%d sessions", st.Live())
	}
}

// TestBrokenAccept: an Accept whose extensions are cut is no answer; a whole one is.
func TestBrokenAccept(t *testing.T) {
	st := newStub(t, setup{})
	s := st.dialTo(1)
	c := s.dialer.Connect
	ch := wire.Challenge{Nonce: c.Nonce, Cookie: [wire.CookieSize]byte{1}}
	st.receive(1, wire.OpChallenge, c.Session, c.Token, wire.ChallengeSize, ch.Put)
	ext := wire.AppendExtension(nil, wire.Extension{Type: 9, Value: []byte("abc")})
	a := wire.Accept{Nonce: c.Nonce, Epoch: 7, Session: 5, Token: 6, Offer: c.Offer}
	for _, x := range [][]byte{ext[:6], ext} {
		st.receive(1, wire.OpAccept, c.Session, c.Token, wire.AcceptSize+len(x), func(b []byte) {
			a.Put(b)
			copy(b[wire.AcceptSize:], x)
		})
		if st.pass(1000); s.Open() != (len(x) == len(ext)) {
			t.Errorf("extensions of %d bytes: open is %v", len(x), s.Open())
		}
	}
}

// flood hands n Connects in, each from another peer and with a cookie, and returns how many
// packets answer them. All others are counted as dropped.
func (st *stub) flood(t *testing.T, n int, cookie byte) (answers int) {
	before := st.stats.DropConnects
	for i := range n {
		c := wire.Connect{Nonce: uint64(i), Offer: wire.Offer{MTU: 1400}}
		c.Cookie[5] = cookie
		st.put(i, connectPkt(&c, nil, 0))
	}
	for len(st.end.in) > 0 {
		st.pass(0)
	}
	answers = len(st.take())
	if got := st.stats.DropConnects - before; int(got)+answers != n {
		t.Errorf("of %d Connects %d were answered, %d dropped", n, answers, got)
	}
	return answers
}

// TestConnectBudgets: of Connects without a cookie an endpoint answers firstsAtOnce, and then
// firstsPerSecond; of those with a wrong one staleAtOnce and stalePerSecond. The others cost it
// nothing but their headers. Neither kind takes from the other.
func TestConnectBudgets(t *testing.T) {
	st := newStub(t, setup{})
	for _, b := range []struct {
		cookie            byte
		perSecond, atOnce int
	}{{0, firstsPerSecond, firstsAtOnce}, {1, stalePerSecond, staleAtOnce}} {
		if n := st.flood(t, 25_000, b.cookie); n != b.atOnce {
			t.Errorf("cookie %d: %d at once", b.cookie, n)
		}
		if n := st.flood(t, 25_000, b.cookie); n != 0 {
			t.Errorf("cookie %d: %d at the same time", b.cookie, n)
		}
	}
	for _, b := range []struct {
		cookie            byte
		perSecond, atOnce int
	}{{1, stalePerSecond, staleAtOnce}, {0, firstsPerSecond, firstsAtOnce}} {
		every := time.Second / time.Duration(b.perSecond)
		st.now = st.now.Add(time.Hour)
		if n := st.flood(t, 25_000, b.cookie); n != b.atOnce {
			t.Errorf("cookie %d: %d after an hour", b.cookie, n)
		}
		st.now = st.now.Add(3*every - 1)
		if n := st.flood(t, 1000, b.cookie); n != 2 {
			t.Errorf("cookie %d: %d in the time of less than 3", b.cookie, n)
		}
		st.now = st.now.Add(1)
		if n := st.flood(t, 1000, b.cookie); n != 1 {
			t.Errorf("cookie %d: %d when the third was due", b.cookie, n)
		}
	}
}

// TestConnectOfKnown: a client that has a session is answered while forged first Connects use up
// the budget of strangers, and has one of its own.
func TestConnectOfKnown(t *testing.T) {
	st := newStub(t, setup{})
	const known = 1 << 15 // none of the flood's
	st.put(known, connectPkt(st.attempt(known, 1, nil), nil, 1400))
	if st.pass(0); st.Live() != 1 {
		t.Fatalf("%d sessions", st.Live())
	}
	st.take()
	if n := st.flood(t, firstsAtOnce+100, 0); n != firstsAtOnce {
		t.Errorf("%d answers, want %d", n, firstsAtOnce)
	}
	again := func(n int) (answers int) {
		for i := range n {
			c := wire.Connect{Nonce: uint64(100 + i), Offer: wire.Offer{MTU: 1400}}
			st.put(known, connectPkt(&c, nil, 0))
			st.pass(0)
		}
		return len(st.take())
	}
	if n := again(knownAtOnce + 100); n != knownAtOnce {
		t.Errorf("%d answers to who has a session, want %d", n, knownAtOnce)
	}
	st.now = st.now.Add(time.Second / firstsPerSecond)
	if n := st.flood(t, 1, 0); n != 1 {
		t.Errorf("%d answers to a stranger in his time, want 1", n)
	}
}

// TestCookieBudget: an endpoint looks at cookiesAtOnce cookies, and then at cookiesPerSecond.
func TestCookieBudget(t *testing.T) {
	st := newStub(t, setup{})
	st.flood(t, cookiesAtOnce-1, 1)
	for i, want := range []string{"[1400]", "[]", "[]", "[1400]"} {
		if i == 3 {
			st.now = st.now.Add(time.Second / cookiesPerSecond)
		}
		st.put(1, connectPkt(st.attempt(1, uint64(i+1), nil), nil, 1400))
		st.pass(0)
		if got := fmt.Sprint(st.sizes()); got != want {
			t.Errorf("Connect %d with a good cookie: answered by %s, want %s", i, got, want)
		}
	}
}

// TestDialInFlood: a server gets 160,000 Connects a second whose senders are forged, and each of a
// hundred honest clients has a session within a second, though their packets come behind forged
// ones. The same holds for Connects that bring wrong cookies.
func TestDialInFlood(t *testing.T) {
	for _, cookie := range []byte{0, 1} {
		server := newStub(t, setup{})
		server.flood(t, 25_000, cookie)
		const step, perStep, count = 100 * time.Microsecond, 16, 100
		clients := make([]*stub, count)
		sessions := make([]*Conn, count)
		for i := range clients {
			clients[i] = newStub(t, setup{Seed: uint64(i + 1)})
			sessions[i] = clients[i].dialTo(1)
		}
		forged := wire.Connect{Offer: wire.Offer{MTU: 1400}}
		forged.Cookie[5] = cookie
		pkt := connectPkt(&forged, nil, 0)
		open, slowest, packets := 0, time.Duration(0), 0
		for at := step; at <= time.Second && open < count; at += step {
			for i := range perStep {
				server.put(count+i, pkt)
			}
			open = 0
			for i, c := range clients {
				c.pass(step)
				for _, p := range c.end.sent {
					server.put(i, p.data)
					packets++
				}
				c.end.sent = nil
				if sessions[i].Open() {
					open++
				}
			}
			for server.pass(step); len(server.end.in) > 0; {
				server.pass(0)
			}
			for _, p := range server.end.sent {
				if i := int(p.to.Port) - 1; i < count {
					clients[i].put(1, p.data)
				}
			}
			server.end.sent = nil
			slowest = at
		}
		t.Logf("cookie %d: %d of %d after %v, %d packets", cookie, open, count, slowest, packets)
		if open < count {
			t.Errorf("cookie %d: %d of %d clients have a session after a second", cookie, open, count)
		}
	}
}

// TestConnectsWait: what came behind a Connect in the same burst is answered before it.
func TestConnectsWait(t *testing.T) {
	st := newStub(t, setup{}, func(q request) { q.answer(nil) })
	s := st.connectFrom(1, 7, 1)
	st.end.sent = nil
	st.put(2, connectPkt(&wire.Connect{Nonce: 5}, nil, 0))
	req := make([]byte, wire.HeaderSize)
	h := wire.Header{Type: wire.TypeReq, Session: s.End.Local, ReqNum: 8}
	h.Put(req, s.End.LocalToken)
	st.put(1, req)
	st.pass(1000)
	var types []string
	for _, p := range st.end.sent {
		var h wire.Header
		if err := h.Parse(p.data); err != nil {
			t.Fatal(err)
		}
		types = append(types, h.Type.String())
	}
	if got := strings.Join(types, " "); got != "RESP MGMT" {
		t.Errorf("sent %s", got)
	}
}

// TestRefusedTouchesNothing: a Connect that is refused makes nobody ask after sessions, though it
// comes from an address whose endpoint seems to have restarted.
func TestRefusedTouchesNothing(t *testing.T) {
	st := newStub(t, setup{MaxSessions: 1})
	s := st.connectFrom(1, 7, 1)
	sweep := st.timers.nextSweep
	if st.connectFrom(1, 8, 2) != nil {
		t.Fatal("a second session")
	}
	if s.assoc.suspect != 0 || st.timers.nextSweep != sweep {
		t.Errorf("%d sessions are suspect, the next sweep at %v, was %v",
			s.assoc.suspect, st.timers.nextSweep, sweep)
	}
}

// TestHurriedSweeps: an address whose endpoint restarts again and again does not make sweeps more
// frequent than minSweep times the usual.
func TestHurriedSweeps(t *testing.T) {
	st := newStub(t, setup{})
	tm := &st.timers
	least := tm.sweepEvery / minSweep
	var sweeps []monotime.Time
	for i := range uint64(2000) {
		st.connectFrom(1, 7+i, 1+i)
		if n := len(sweeps); tm.swept != 0 && (n == 0 || sweeps[n-1] != tm.swept) {
			sweeps = append(sweeps, tm.swept)
		}
		st.pass(time.Millisecond / 4)
	}
	if st.stats.DropConnects != 0 {
		t.Fatal("Connects were dropped")
	}
	// Strangers get no more either.
	answers := 0
	old := make([]byte, 64)
	h := wire.Header{
		Type: wire.TypeMgmt, ReqType: uint8(wire.OpPing), MsgSize: wire.AliveSize, Session: 4444,
	}
	h.Put(old, 0)
	x := wire.Alive{To: 7}
	x.Put(old[wire.HeaderSize:])
	wire.SealMgmt(old, 7)
	st.end.sent = nil
	for i := range uint64(1000) { // twice the time between two sweeps
		st.connectFrom(1, 9000+i, 9000+i)
		for range 10 {
			st.put(3, old)
		}
		st.pass(time.Millisecond / 4)
		for _, p := range st.end.sent {
			if wire.Op(p.data[1]) == wire.OpReset {
				answers++
			}
		}
		st.end.sent = nil
	}
	if answers > 3*resetsPerSweep || answers < resetsPerSweep {
		t.Errorf("%d answers to strangers in the time of two sweeps", answers)
	}
	if len(sweeps) < 10 {
		t.Fatalf("%d sweeps in half a second", len(sweeps))
	}
	for i := range len(sweeps) - 1 {
		if d := sweeps[i+1].Sub(sweeps[i]); d < least {
			t.Fatalf("a sweep %v after the last one, less than %v", d, least)
		}
	}
}

// TestOtherVersion: a Connect of another version is told so, by a smaller packet that names both.
// Nothing else is answered, and not more than versionsAtOnce of them.
func TestOtherVersion(t *testing.T) {
	st := newStub(t, setup{})
	old := connectPkt(&wire.Connect{Nonce: 77}, nil, 0)
	old[0] = old[0]&0x0F | 1<<4
	st.put(3, old)
	st.pass(1000)
	if len(st.end.sent) != 1 || st.end.sent[0].to != stubAddr(3) {
		t.Fatalf("%d packets were sent", len(st.end.sent))
	}
	reply := st.end.sent[0].data
	var r wire.VersionRefusal
	if want := (wire.VersionRefusal{Nonce: 77, Asked: 1, Least: 2, Most: 3}); !r.Parse(reply) ||
		r != want {
		t.Errorf("the refusal is %+v", r)
	}
	if len(reply) > len(old) {
		t.Errorf("%d bytes answer %d", len(reply), len(old))
	}
	st.end.sent = nil
	ping := append([]byte(nil), old...)
	ping[1] = byte(wire.OpPing)
	st.put(3, ping)
	st.put(3, reply)
	st.pass(1000)
	if n := len(st.end.sent); n != 0 {
		t.Errorf("%d answers to what asks for none", n)
	}
	for range 2 * versionsAtOnce {
		st.put(3, old)
	}
	for len(st.end.in) > 0 {
		st.pass(0)
	}
	if n := len(st.end.sent); n != versionsAtOnce-1 { // one before
		t.Errorf("%d refusals at once", n)
	}
	st.end.sent = nil
	x := wire.Alive{To: 7}
	st.receive(3, wire.OpPing, 4444, 7, wire.AliveSize, x.Put)
	st.pass(0)
	if ops := st.take(); len(ops) != 1 || ops[0] != wire.OpReset {
		t.Errorf("then a stranger's ping is answered by %v", ops)
	}
}

// TestRefusedVersion: a session that is being opened ends when its server speaks another version,
// and only by a refusal of its own attempt from that server.
func TestRefusedVersion(t *testing.T) {
	st := newStub(t, setup{})
	s := st.dialTo(1)
	other := st.dialTo(2)
	r := wire.VersionRefusal{Nonce: s.dialer.Connect.Nonce, Asked: wire.Version, Least: 4, Most: 5}
	refuse := func(i int, r wire.VersionRefusal) {
		pkt := make([]byte, wire.VersionRefusalSize)
		r.Put(pkt)
		st.put(i, pkt)
		st.pass(1000)
	}
	for st.handshakes.budgets.versions.take(st.now) { // others than these have asked
	}
	refuse(2, r)
	forged := r
	forged.Nonce++
	refuse(1, forged)
	if s.Err() != nil || other.Err() != nil {
		t.Fatalf("a forged refusal ended a session: %v, %v", s.Err(), other.Err())
	}
	refuse(1, r)
	if err := s.Err(); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "4 to 5") {
		t.Errorf("the session ended with %v", err)
	}
	if other.Err() != nil {
		t.Errorf("the other session ended with %v", other.Err())
	}
	if st.pass(time.Second); st.Live() != 1 {
		t.Errorf("%d sessions", st.Live())
	}
}

// BenchmarkConnect: what a Connect costs that opens no session, after the receive call: without a
// cookie, and with a wrong one.
func BenchmarkConnect(b *testing.B) {
	st := newStub(b, setup{})
	wrong := st.attempt(1, 5, nil)
	wrong.Cookie[7]++
	for name, c := range map[string]*wire.Connect{
		"no cookie": {Nonce: 5, Offer: wrong.Offer}, "wrong cookie": wrong,
	} {
		size, every := 0, time.Second/firstsPerSecond // so that each one is answered
		if name == "wrong cookie" {
			size, every = 1400, time.Second/stalePerSecond
		}
		p := transport.RxPacket{Data: connectPkt(c, nil, size), From: stubAddr(1)}
		b.Run(name, func(b *testing.B) {
			e := &st.Engine
			b.ReportAllocs()
			for b.Loop() {
				e.in.Now = e.in.Now.Add(every)
				e.OnPacket(&p, 0)
				e.AnswerConnects()
				if len(e.Out.Tx) == 64 {
					e.Out.Reset()
				}
			}
			if e.stats.DropConnects != 0 || e.stats.DropMalformed != 0 {
				b.Fatal("dropped")
			}
		})
	}
}
