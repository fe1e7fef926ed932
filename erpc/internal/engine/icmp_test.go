package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// pinged makes a pass after d, and returns the pings sent since the last time.
func (st *stub) pinged(d time.Duration) (pings [][]byte) {
	st.tb.Helper()
	st.pass(d)
	for _, p := range st.end.sent {
		if wire.Op(p.data[1]) == wire.OpPing {
			pings = append(pings, p.data)
		}
	}
	st.end.sent = nil
	return pings
}

// say has the network say something about a packet to peer i.
func (st *stub) say(i int, kind transport.HintKind, quoted []byte) {
	st.end.said = append(st.end.said, transport.Hint{
		Kind: kind, To: stubAddr(i), Quoted: bytes.Clone(quoted[:min(len(quoted), transport.QuotedMax)]),
	})
}

const unreachable = transport.HintUnreachable

// icmpStub is an endpoint with a client session to peer 1, and one of peer 2, which keeps quiet.
func icmpStub(t *testing.T) (st *stub, s, other *Conn) {
	st = newStub(t, setup{Timing: session.Timing{FailureTimeout: time.Hour, Heartbeat: time.Minute}})
	s, other = st.dialTo(1), st.dialTo(2)
	st.accepted(s, 1, 7)
	st.accepted(other, 2, 7)
	st.pass(10 * time.Millisecond)
	st.end.sent = nil
	return st, s, other
}

// TestPeerGone: three pings come back from the network, and the sessions with the peer end within
// 100 ms, those of both kinds. Others live on.
func TestPeerGone(t *testing.T) {
	st, s, other := icmpStub(t)
	served := st.connectFrom(1, 7, 3)
	st.end.sent = nil
	began, pings := st.now, 0
	st.say(1, unreachable, []byte("some packet"))
	for s.Err() == nil {
		for _, p := range st.pinged(time.Millisecond) {
			pings++
			st.say(1, unreachable, p)
		}
		if st.now.Sub(began) > 100*time.Millisecond {
			t.Fatalf("alive after %v and %d pings", st.now.Sub(began), pings)
		}
	}
	if pings != quotesNeeded {
		t.Errorf("%d pings", pings)
	}
	for _, s := range []*Conn{s, served} {
		if !errors.Is(s.Err(), ErrPeerLost) {
			t.Errorf("a session ended with %v", s.Err())
		}
	}
	if other.Err() != nil || st.Live() != 1 {
		t.Errorf("the other session: %v, %d sessions", other.Err(), st.Live())
	}
	st.assocs.check()
	st.pass(time.Second)
	if n := len(st.assocs.probes); n != 0 {
		t.Errorf("%d peers are probed", n)
	}
	t.Logf("gone after %v", st.now.Sub(began)-time.Second)
}

// TestForgedICMP: whatever quotes no ping of this series ends nothing, and causes few pings, though
// it comes each millisecond. Who quotes fewer than three ends no session before the peer has been
// silent to six, for 150 ms. Each forgery turns what was sent into what is said.
func TestForgedICMP(t *testing.T) {
	slowly := map[string]bool{"the same ping": true, "two pings": true, "of a series before": true}
	for name, forge := range map[string]func(pings [][]byte) []byte{
		"nothing":    func([][]byte) []byte { return nil },
		"other data": func([][]byte) []byte { return make([]byte, transport.QuotedMax) },
		"too few bytes": func(pings [][]byte) []byte {
			return pings[len(pings)-1][:wire.HeaderSize+wire.AliveSize-1]
		},
		"the header alone": func(pings [][]byte) []byte {
			return pings[len(pings)-1][:wire.HeaderSize]
		},
		"the same ping": func(pings [][]byte) []byte { return pings[0] },
		"two pings":     func(pings [][]byte) []byte { return pings[len(pings)%min(2, len(pings))] },
		"another number": func(pings [][]byte) []byte {
			return flip(pings[len(pings)-1], wire.HeaderSize+8)
		},
		"another token": func(pings [][]byte) []byte { return flip(pings[len(pings)-1], 12) },
		"of a series before": func(pings [][]byte) []byte {
			return pings[max(0, len(pings)-seriesPings-1)]
		},
	} {
		st, s, _ := icmpStub(t)
		const span = 5 * time.Second
		end := st.now.Add(span)
		var pings [][]byte
		began := st.now
		st.say(1, unreachable, nil)
		for st.now < end && s.Err() == nil {
			pings = append(pings, st.pinged(time.Millisecond)...)
			if len(pings) > 0 {
				st.say(1, unreachable, forge(pings))
			}
		}
		if took := st.now.Sub(began); (s.Err() != nil) != slowly[name] || took < 150*time.Millisecond {
			t.Errorf("%s: after %v the session ended with %v", name, took, s.Err())
		}
		if slowly[name] {
			continue
		}
		if most := int(span/seriesEvery) * seriesPings; len(pings) > most || len(pings) < most/2 {
			t.Errorf("%s: %d pings in %v", name, len(pings), span)
		}
		if n := len(st.assocs.probes); n > 1 {
			t.Errorf("%s: %d series of pings", name, n)
		}
	}
}

// alone is the size of a request that no bundle takes.
const alone = 1000

// ask starts n requests of size bytes, and returns the packets that leave.
func (st *stub) ask(s *Conn, n, size int) (sent [][]byte) {
	st.tb.Helper()
	for range n {
		st.start(s, 1, size)
	}
	st.pass(1000)
	for _, p := range st.end.sent {
		sent = append(sent, p.data)
	}
	st.end.sent = nil
	return sent
}

// TestPeerGoneUnderRequests: three packets of requests come back, and no ping does. They end the
// sessions. The same packet again, one of a stranger, and one that was answered count for nothing.
func TestPeerGoneUnderRequests(t *testing.T) {
	for name, c := range map[string]struct {
		quote func(s *Conn, sent [][]byte) [][]byte
		gone  bool
	}{
		"three": {func(_ *Conn, sent [][]byte) [][]byte { return sent[:3] }, true},
		"their heads": {func(_ *Conn, sent [][]byte) [][]byte {
			return [][]byte{sent[0][:24], sent[1][:24], sent[2][:24]}
		}, true},
		"behind junk": {func(_ *Conn, sent [][]byte) [][]byte {
			junk := make([][]byte, maxQuoted-3)
			for i := range junk {
				junk[i] = flip(sent[0], 12+i%4)
			}
			return append(junk, sent[:3]...)
		}, true},
		"behind more junk": {func(_ *Conn, sent [][]byte) [][]byte {
			junk := make([][]byte, maxQuoted-2)
			for i := range junk {
				junk[i] = flip(sent[0], 12+i%4)
			}
			return append(junk, sent[:3]...)
		}, false},
		"one, thrice": {func(_ *Conn, sent [][]byte) [][]byte {
			return [][]byte{sent[0], sent[0], sent[0]}
		}, false},
		"two": {func(_ *Conn, sent [][]byte) [][]byte { return sent[:2] }, false},
		"answers": {func(s *Conn, sent [][]byte) [][]byte {
			for _, p := range sent {
				p[0] += byte(wire.TypeResp)
			}
			return sent
		}, false},
		"with other tokens": {func(s *Conn, sent [][]byte) [][]byte {
			return [][]byte{flip(sent[0], 12), flip(sent[1], 13), flip(sent[2], 15)}
		}, false},
		"too short": {func(s *Conn, sent [][]byte) [][]byte {
			return [][]byte{sent[0][:23], sent[1][:23], sent[2][:23]}
		}, false},
	} {
		st, s, other := icmpStub(t)
		for _, quoted := range c.quote(s, st.ask(s, 4, alone)) {
			st.say(1, unreachable, quoted)
		}
		st.pass(2 * time.Millisecond)
		st.pass(2 * time.Millisecond)
		if gone := errors.Is(s.Err(), ErrPeerLost); gone != c.gone || other.Err() != nil {
			t.Errorf("%s: the sessions ended with %v, %v", name, s.Err(), other.Err())
		}
	}
}

// TestBundlesCameBack: bundles that come back count as the requests in them do, each once.
func TestBundlesCameBack(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		st, s, _ := icmpStub(t)
		var sent [][]byte
		for range n {
			sent = append(sent, st.ask(s, 2, 32)...)
		}
		for range 3 {
			for _, p := range sent {
				if !wire.IsBundle(p) {
					t.Fatalf("a packet of %d bytes is alone", len(p))
				}
				st.say(1, unreachable, p)
			}
		}
		st.pass(2 * time.Millisecond)
		st.pass(2 * time.Millisecond)
		if gone := errors.Is(s.Err(), ErrPeerLost); len(sent) != n || gone != (n == 3) {
			t.Errorf("%d bundles: %v", len(sent), s.Err())
		}
	}
}

// TestLastWords: two packets of requests come back, then the peer is heard, with something that may
// have been on its way, and then a third one comes back. The peer counts as gone, unless it has
// answered one of the three; and only once it has been silent for a while.
func TestLastWords(t *testing.T) {
	for _, answers := range []int{0, 1, 4} {
		st, s, _ := icmpStub(t)
		tick := func(d time.Duration) {
			st.timers.nextScan = 0
			st.pass(d)
		}
		sent := st.ask(s, 4, alone)
		st.say(1, unreachable, sent[0])
		st.say(1, unreachable, sent[1])
		tick(1000)
		x := alive(s)
		st.receive(1, wire.OpPong, s.End.Local, s.End.LocalToken, wire.AliveSize, x.Put)
		for _, p := range sent[:answers] {
			st.respond(1, s, p)
		}
		tick(1000)
		st.say(1, unreachable, sent[2])
		tick(1000)
		tick(lastWords - 1001)
		if s.Err() != nil {
			t.Errorf("%d answers: the session ended at once: %v", answers, s.Err())
		}
		tick(1)
		if gone := errors.Is(s.Err(), ErrPeerLost); gone != (answers == 0) {
			t.Errorf("%d answers: %v", answers, s.Err())
		}
	}
}

// respond lets peer i answer a request packet of s with nothing.
func (st *stub) respond(i int, s *Conn, req []byte) {
	var h wire.Header
	if err := h.Parse(req); err != nil {
		st.tb.Fatal(err)
	}
	h.Type, h.MsgSize, h.Session, h.Hold = wire.TypeResp, 0, s.End.Local, 0
	pkt := make([]byte, wire.HeaderSize)
	h.Put(pkt, s.End.LocalToken)
	st.end.in = append(st.end.in, transport.RxPacket{Data: pkt, From: stubAddr(i)})
}

// TestTooBig: the network says that packets are too large. Nothing happens to a session at rest.
// Under a request its path is probed, at once and not for each ICMP error, unless its packets are
// small enough.
func TestTooBig(t *testing.T) {
	for _, c := range []struct {
		mtu  int
		asks bool
	}{{stubMTU, false}, {stubMTU - 1, true}, {0, true}} {
		st, s, _ := icmpStub(t)
		say := func() {
			st.say(1, transport.HintTooBig, nil)
			st.end.said[len(st.end.said)-1].MTU = c.mtu
		}
		say()
		if n := len(st.pinged(2 * time.Millisecond)); n != 0 {
			t.Errorf("MTU %d: %d pings without a request", c.mtu, n)
		}
		st.ask(s, 1, 32)
		probes := 0
		for range 10 { // milliseconds, before requests time out
			say()
			x := alive(s)
			st.receive(1, wire.OpPong, s.End.Local, s.End.LocalToken, wire.AliveSize, x.Put)
			for _, p := range st.pinged(time.Millisecond) {
				if len(p) == stubMTU {
					probes++
				}
				st.answer(1, s, p)
			}
		}
		if want := map[bool]int{true: 1}[c.asks]; probes != want {
			t.Errorf("MTU %d: %d probes", c.mtu, probes)
		}
		if s.Err() != nil {
			t.Errorf("MTU %d: %v", c.mtu, s.Err())
		}
	}
}

// answer lets peer i answer a ping of s.
func (st *stub) answer(i int, s *Conn, ping []byte) {
	var x wire.Alive
	x.Parse(ping[wire.HeaderSize:])
	x = wire.Alive{Session: x.Session, Token: x.Token, Seq: x.Seq, To: s.End.LocalToken}
	st.receive(i, wire.OpPong, s.End.Local, s.End.LocalToken, wire.AliveSize, x.Put)
}

// TestFewQuotes: hosts send few messages. One ping of a series comes back, and the peer answers
// none of the others for 150 ms: it has gone. If it was heard meanwhile it lives, and so it does if
// none came back.
func TestFewQuotes(t *testing.T) {
	for _, c := range []struct{ quoted, heard, lost bool }{
		{true, false, true}, {true, true, false}, {false, false, false},
	} {
		st, s, _ := icmpStub(t)
		began := st.now
		st.say(1, unreachable, nil)
		pings := st.pinged(2 * time.Millisecond)
		if len(pings) != 1 {
			t.Fatalf("%+v: %d pings at once", c, len(pings))
		}
		if c.quoted {
			st.say(1, unreachable, pings[0])
		}
		for st.now.Sub(began) < time.Second && s.Err() == nil {
			st.pinged(time.Millisecond)
			if at := st.now.Sub(began); c.heard && at > 120*time.Millisecond && at < 125*time.Millisecond {
				x := alive(s)
				st.receive(1, wire.OpPong, s.End.Local, s.End.LocalToken, wire.AliveSize, x.Put)
			}
		}
		took, lost := st.now.Sub(began), errors.Is(s.Err(), ErrPeerLost)
		if lost != c.lost || lost && took < 150*time.Millisecond {
			t.Errorf("%+v: %v after %v", c, s.Err(), took)
		}
	}
}

func flip(p []byte, i int) []byte {
	p = bytes.Clone(p)
	p[i] ^= 1
	return p
}

// TestICMPThenLife: a peer that is heard after the first ping lives, though all pings come back.
// It gets no more of them then, until the next series.
func TestICMPThenLife(t *testing.T) {
	for heardAfter := range quotesNeeded {
		st, s, _ := icmpStub(t)
		st.say(1, unreachable, nil)
		pings := 0
		for end := st.now.Add(seriesEvery - 10*time.Millisecond); st.now < end; {
			for _, p := range st.pinged(time.Millisecond) {
				if pings == heardAfter {
					x := alive(s)
					st.receive(1, wire.OpPong, s.End.Local, s.End.LocalToken, wire.AliveSize, x.Put)
				}
				pings++
				st.say(1, unreachable, p)
			}
		}
		if s.Err() != nil || pings != heardAfter+1 {
			t.Errorf("heard after ping %d: %v, %d pings", heardAfter, s.Err(), pings)
		}
	}
}

// TestOtherICMP: what says that packets are too large, and what is about others than peers, makes
// nobody ask. A session that is being opened goes on.
func TestOtherICMP(t *testing.T) {
	st, s, _ := icmpStub(t)
	dialled := st.dialTo(4)
	for range 1000 {
		for _, i := range []int{3, 4} {
			st.say(i, unreachable, make([]byte, 64))
		}
		st.say(1, transport.HintTooBig, make([]byte, 64))
		st.say(1, 77, nil)
		if n := len(st.pinged(time.Millisecond)); n != 0 {
			t.Fatalf("%d pings", n)
		}
	}
	if s.Err() != nil || dialled.Err() != nil {
		t.Errorf("%v, %v", s.Err(), dialled.Err())
	}
}

// TestStoppedPeer: a peer that is silent beside forged ICMP errors lives as long as one without
// them.
func TestStoppedPeer(t *testing.T) {
	lived := func(forged bool) time.Duration {
		st := newStub(t, setup{})
		s := st.dialTo(1)
		st.accepted(s, 1, 7)
		began := st.now
		for s.Err() == nil {
			if forged {
				st.say(1, unreachable, make([]byte, 64))
			}
			st.pass(time.Millisecond)
			st.end.sent = nil
		}
		if !errors.Is(s.Err(), ErrPeerLost) {
			t.Errorf("the session ended with %v", s.Err())
		}
		return st.now.Sub(began)
	}
	with, without := lived(true), lived(false)
	const slack = 200 * time.Millisecond
	if with < 3*time.Second || with-without > slack || without-with > slack {
		t.Errorf("given up after %v, without forged hints after %v", with, without)
	}
}

// TestManyDeathProbes: ICMP errors about more peers than maxDeathProbes make no more series than
// that, and the endpoint wakes for them.
func TestManyDeathProbes(t *testing.T) {
	st := newStub(t, setup{})
	const count = maxDeathProbes + 100
	for i := range count {
		st.connectFrom(i, 7, uint64(i+1))
		st.end.sent = nil
	}
	for i := range count {
		st.say(i, unreachable, nil)
	}
	pings := 0
	for range count/MaxICMPOnce + 2 {
		pings += len(st.pinged(1250 * time.Microsecond))
	}
	if n := len(st.assocs.probes); n != maxDeathProbes {
		t.Errorf("%d peers are probed", n)
	}
	if pings < maxDeathProbes || pings > 2*seriesPings*maxDeathProbes {
		t.Errorf("%d pings", pings)
	}
	if wake := st.WakeAt().Sub(st.now); wake > 2*time.Millisecond {
		t.Errorf("the loop sleeps for %v", wake)
	}
	for range 300 {
		st.pinged(time.Millisecond)
	}
	if n := len(st.assocs.probes); n != 0 {
		t.Errorf("%d peers are probed later", n)
	}
}

// TestGoneWhileConnecting: a peer whose process has ended opens no session any more: who dials it
// need not wait for ConnectTimeout. Dials to others go on.
func TestGoneWhileConnecting(t *testing.T) {
	st := newStub(t, setup{})
	s, other := st.dialTo(1), st.dialTo(2)
	st.say(1, transport.HintGone, nil)
	st.pass(10 * time.Millisecond)
	if !errors.Is(s.Err(), ErrConnect) || s.fate != Refused {
		t.Errorf("the dial: %v", s.Err())
	}
	if other.state != connecting {
		t.Errorf("another dial: %v", other.Err())
	}
	st.accepted(other, 2, 7)
	if !other.Open() {
		t.Errorf("another dial: %v", other.Err())
	}
}

// TestProbesOfSizeLeaveAlone: two sessions with a peer suspect their path, which carries less. One
// asks for both, with one ping at a time, so that no two are in one train; then the packets of both
// are smaller. After a second pings ask for larger packets, and one that is answered raises both.
func TestProbesOfSizeLeaveAlone(t *testing.T) {
	st, s, _ := icmpStub(t)
	other := st.dialTo(1)
	st.accepted(other, 1, 7)
	st.ask(s, 1, 20_000)
	st.ask(other, 1, 20_000)
	carries := 1300
	by := map[uint32]*Conn{s.End.Remote: s, other.End.Remote: other}
	run := func(d time.Duration) {
		t.Helper()
		for end := st.now.Add(d); st.now < end; {
			padded := 0
			for _, p := range st.pinged(time.Millisecond) {
				var h wire.Header
				if err := h.Parse(p); err != nil {
					t.Fatal(err)
				}
				if len(p) > pingSize {
					padded++
				}
				if len(p) <= carries {
					st.answer(1, by[h.Session], p)
				}
			}
			if padded > 1 {
				t.Errorf("%d padded pings in one tick", padded)
			}
		}
	}
	run(300 * time.Millisecond)
	for _, x := range []*Conn{s, other} {
		if n := x.Client.PacketSize(); n != 1232 {
			t.Errorf("packets of %d bytes on a path of %d", n, carries)
		}
	}
	carries = stubMTU
	run(1500 * time.Millisecond)
	for _, x := range []*Conn{s, other} {
		if n := x.Client.PacketSize(); n != stubMTU {
			t.Errorf("packets of %d bytes on a path of %d", n, carries)
		}
	}
}
