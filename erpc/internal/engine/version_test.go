package engine

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// newMixedStub returns a server on which one peer has sessions of both versions.
func newMixedStub(t *testing.T) (x *bundleStub, old *Conn) {
	x = newBundleStub(t)
	x.version = wire.OldVersion
	old = x.connectWith(1, 7, 9, wire.FeatureBundle)
	x.version = 0
	if old.assoc != x.a.assoc || old.End.Version != wire.OldVersion ||
		x.a.End.Version != wire.Version {
		t.Fatal("the sessions are not those of one peer in both versions")
	}
	x.end.sent = nil
	return x, old
}

// lone is a request for a session in a packet of a version.
func lone(s *Conn, version uint8, num uint64) []byte {
	pkt := make([]byte, wire.HeaderSize)
	h := wire.Header{Type: wire.TypeReq, Version: version, Session: s.End.Local, ReqNum: num}
	h.Put(pkt, s.End.LocalToken)
	return pkt
}

// as makes a packet one of a version.
func as(version uint8, pkt []byte) []byte {
	pkt[0] = pkt[0]&0x0F | version<<4
	return pkt
}

// TestVersionOfSession: a session takes packets of its own version alone, in bundles too, and
// counts the others.
func TestVersionOfSession(t *testing.T) {
	const v2, v3 = wire.OldVersion, wire.Version
	for name, c := range map[string]struct {
		pkt         func(x *bundleStub, old *Conn) []byte
		ran, tokens int
	}{
		"right":         {func(x *bundleStub, _ *Conn) []byte { return lone(x.a, v3, 8) }, 1, 0},
		"right and old": {func(_ *bundleStub, old *Conn) []byte { return lone(old, v2, 8) }, 1, 0},
		"too old":       {func(x *bundleStub, _ *Conn) []byte { return lone(x.a, v2, 8) }, 0, 1},
		"too new":       {func(_ *bundleStub, old *Conn) []byte { return lone(old, v3, 8) }, 0, 1},
		"bundle": {func(x *bundleStub, _ *Conn) []byte {
			return bundled(false, inner{s: x.a, num: 8}, inner{s: x.b, num: 8})
		}, 2, 0},
		"old bundle": {func(_ *bundleStub, old *Conn) []byte {
			return as(v2, bundled(false, inner{s: old, num: 8}, inner{s: old, num: 9}))
		}, 2, 0},
		"bundle, too old": {func(x *bundleStub, _ *Conn) []byte {
			return as(v2, bundled(false, inner{s: x.a, num: 8}))
		}, 0, 1},
		"bundle, too new": {func(_ *bundleStub, old *Conn) []byte {
			return bundled(false, inner{s: old, num: 8})
		}, 0, 1},
		"bundle with an old one": {func(x *bundleStub, old *Conn) []byte {
			return bundled(false, inner{s: x.a, num: 8}, inner{s: old, num: 8})
		}, 1, 1},
		"old bundle with a new one": {func(x *bundleStub, old *Conn) []byte {
			return as(v2, bundled(false, inner{s: old, num: 8}, inner{s: x.a, num: 8},
				inner{s: old, num: 9}))
		}, 2, 1},
	} {
		x, old := newMixedStub(t)
		before := x.stats.DropToken
		x.end.in = append(x.end.in, transport.RxPacket{Data: c.pkt(x, old), From: stubAddr(1)})
		x.pass(1000)
		if got := int(x.stats.DropToken - before); x.ran != c.ran || got != c.tokens {
			t.Errorf("%s: %d handlers ran, want %d; %d drops, want %d", name, x.ran, c.ran, got, c.tokens)
		}
	}
}

// TestVersionsShareNoBundle: what answers sessions of both versions leaves in datagrams of each.
func TestVersionsShareNoBundle(t *testing.T) {
	x, old := newMixedStub(t)
	for num := range uint64(2) {
		for _, s := range []*Conn{x.a, x.b, old, old} {
			x.end.in = append(x.end.in, transport.RxPacket{Data: lone(s, s.End.Version,
				8+num+8*uint64(len(x.end.in))), From: stubAddr(1)})
		}
	}
	x.pass(1000)
	packets := map[uint8]int{}
	for _, p := range x.end.sent {
		var b wire.Bundle
		var h wire.Header
		if b.Parse(p.data) != nil {
			if err := h.Parse(p.data); err != nil || x.speaker(wire.Token(p.data)) != h.Version {
				t.Errorf("a packet of version %d, %v", h.Version, err)
			}
			packets[h.Version]++
			continue
		}
		for _, ok := b.Next(&h); ok; _, ok = b.Next(&h) {
			if packets[h.Version]++; x.speaker(b.Token()) != h.Version {
				t.Errorf("a packet of another session in a bundle of version %d", h.Version)
			}
		}
	}
	if x.ran != 8 || packets[wire.Version] != 4 || packets[wire.OldVersion] != 4 {
		t.Errorf("%d handlers ran; answers by version: %v", x.ran, packets)
	}
}

// speaker returns the version of the session whose peer has given it a token.
func (x *bundleStub) speaker(token uint32) uint8 {
	for _, s := range x.table.byNumber {
		if s != nil && s.End.RemoteToken == token {
			return s.End.Version
		}
	}
	return 0
}

// TestVersionOfAnswers: management packets are answered in their version, also those of sessions
// that are not known; a session's own answers only those of its version.
func TestVersionOfAnswers(t *testing.T) {
	x, old := newMixedStub(t)
	for _, c := range []struct {
		name    string
		s       *Conn
		version uint8
		wrong   uint32 // in the number
		want    wire.Op
	}{
		{"a ping", x.a, wire.Version, 0, wire.OpPong},
		{"an old ping", old, wire.OldVersion, 0, wire.OpPong},
		{"an old ping of a new session", x.a, wire.OldVersion, 0, 0},
		{"a new ping of an old session", old, wire.Version, 0, 0},
		{"a stranger's ping", x.a, wire.Version, 999, wire.OpReset},
		{"a stranger's old ping", old, wire.OldVersion, 999, wire.OpReset},
	} {
		a := alive(c.s)
		x.version = c.version
		x.receive(1, wire.OpPing, c.s.End.Local+c.wrong, c.s.End.LocalToken, wire.AliveSize, a.Put)
		x.pass(1000)
		var got wire.Op
		for _, p := range x.end.sent {
			var h wire.Header
			if err := h.Parse(p.data); err != nil || h.Version != c.version {
				t.Errorf("%s: an answer of version %d, %v", c.name, h.Version, err)
			}
			got = wire.Op(h.ReqType)
		}
		if got != c.want {
			t.Errorf("%s: answered by %v, want %v", c.name, got, c.want)
		}
		x.end.sent = nil
	}
}

// TestOldInsideSealed: what the keys of an association open is dropped if it is of version 2.
func TestOldInsideSealed(t *testing.T) {
	p, client, server := newSealedPair(t)
	for num, version := range []uint8{wire.OldVersion, wire.Version} {
		s := &p.server.stats
		dropped, ran := s.DropSealed, p.ran
		pkt, ok := client.assoc.keys.Seal(nil, lone(server, version, uint64(8+num)), nil)
		if !ok {
			t.Fatal("it was not sealed")
		}
		p.server.end.in = append(p.server.end.in, transport.RxPacket{Data: pkt, From: stubAddr(2)})
		p.server.pass(1000)
		want := int(version - wire.OldVersion)
		if p.ran-ran != want || int(s.DropSealed-dropped) != 1-want {
			t.Errorf("version %d: %d handlers ran, %d packets were dropped", version,
				p.ran-ran, s.DropSealed-dropped)
		}
	}
}

// TestOldOpeningInTheClear: where packets are sealed, nothing of version 2 ends an attempt to
// connect, or draws an answer about a session.
func TestOldOpeningInTheClear(t *testing.T) {
	st := newStub(t, setup{PSK: testPSK})
	s := st.dialTo(1)
	st.pass(0)
	st.end.sent = nil
	refuse := func(version uint8) {
		r := wire.Refuse{Nonce: s.dialer.Connect.Nonce, Code: wire.CodeShutdown}
		st.version = version
		st.receive(1, wire.OpRefuse, wire.NoSession, 0, wire.RefuseSize, r.Put)
		st.pass(1000)
	}
	if refuse(wire.OldVersion); s.Err() != nil {
		t.Errorf("a Refuse of version 2: %v", s.Err())
	}
	for _, version := range []uint8{wire.OldVersion, wire.Version} {
		before := st.stats.DropSealed
		st.version = version
		st.receive(3, wire.OpPing, 77, 0, wire.AliveSize, (&wire.Alive{Session: 5}).Put)
		st.pass(1000)
		if st.stats.DropSealed != before+1 || len(st.take()) != 0 {
			t.Errorf("a ping of version %d is taken", version)
		}
	}
	if refuse(wire.Version); s.Err() == nil {
		t.Error("a Refuse of version 3 does not end the attempt")
	}
}

// TestConnectInTwoVersions: a Connect that opened a session is not answered in another version.
func TestConnectInTwoVersions(t *testing.T) {
	x := newBundleStub(t)
	x.version = wire.OldVersion
	if s := x.connectWith(1, 7, 1, wire.FeatureBundle); s != x.a || len(x.end.sent) != 0 {
		t.Errorf("%d answers", len(x.end.sent))
	}
	x.version = 0
	if x.connectWith(1, 7, 1, wire.FeatureBundle); len(x.end.sent) != 1 {
		t.Errorf("%d answers to the same", len(x.end.sent))
	}
}
