package engine

import (
	"testing"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// inner is a request in a bundle of a test.
type inner struct {
	s     *Conn
	num   uint64
	wrong uint32 // goes into the token
	other uint32 // in place of the session's number, if not 0
}

// bundled makes a bundle of requests, with a checksum or without.
func bundled(summed bool, packets ...inner) []byte {
	pkt := make([]byte, wire.BundleHeaderSize, 4096)
	var last, first, token uint32
	for i, p := range packets {
		h := wire.Header{Type: wire.TypeReq, MsgSize: 4, Session: p.s.End.Local, ReqNum: p.num}
		if p.other != 0 {
			h.Session = p.other
		}
		t := p.s.End.LocalToken ^ p.wrong
		if i == 0 {
			first, token, last = h.Session, t, h.Session
		}
		var rec [wire.MaxRecordHead]byte
		n := wire.PutRecord(rec[:], &h, 4, h.Session != last, t)
		pkt = append(append(pkt, rec[:n]...), "data"...)
		last = h.Session
	}
	wire.PutBundle(pkt, wire.Version, len(packets), len(pkt)-wire.BundleHeaderSize, first, token)
	if summed {
		wire.SetToken(pkt, token^wire.Checksum(pkt, nil))
	}
	return pkt
}

// bundleStub is a server with sessions of two peers: a and b of peer 1, c of peer 2, and of peer 1
// one that did not agree on bundles and two with checksums.
type bundleStub struct {
	*stub
	a, b, c, old, sum, sum2 *Conn
	ran                     int
}

func newBundleStub(t *testing.T) *bundleStub {
	x := new(bundleStub)
	x.stub = newStub(t, setup{}, func(h request) {
		x.ran++
		h.answer(nil)
	})
	const on, sums = wire.FeatureBundle, wire.FeatureBundle | wire.FeatureChecksum
	x.a, x.b = x.connectWith(1, 7, 1, on), x.connectWith(1, 7, 2, on)
	x.c = x.connectWith(2, 7, 3, on)
	x.old = x.connectWith(1, 7, 4, 0)
	x.sum, x.sum2 = x.connectWith(1, 7, 5, sums), x.connectWith(1, 7, 6, sums)
	x.end.sent = nil
	return x
}

// TestBundleIn: each packet of a bundle is its session's or is dropped, and counted by its reason.
// A fault of one costs the others nothing, but for the checksum.
func TestBundleIn(t *testing.T) {
	type drops struct{ malformed, session, token, bundle uint64 }
	for name, c := range map[string]struct {
		make func(x *bundleStub) []byte
		from int
		ran  int
		drop drops
	}{
		"two sessions": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.a, num: 8}, inner{s: x.a, num: 9}, inner{s: x.b, num: 8})
		}, 1, 3, drops{}},
		"one twice": {func(x *bundleStub) []byte {
			return bundled(false, inner{s: x.a, num: 8}, inner{s: x.a, num: 8})
		}, 1, 1, drops{}},
		"from elsewhere": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.a, num: 8}, inner{s: x.a, num: 9}, inner{s: x.b, num: 8})
		}, 3, 0, drops{token: 2}},
		"the first one unknown": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.a, num: 8, other: 999}, inner{s: x.a, num: 9}, inner{s: x.b, num: 8})
		}, 1, 2, drops{session: 1}},
		"the first token wrong": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.a, num: 8, wrong: 1}, inner{s: x.a, num: 9}, inner{s: x.b, num: 8})
		}, 1, 1, drops{token: 1}},
		"a later one unknown": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.a, num: 8}, inner{s: x.b, num: 9, other: 999}, inner{s: x.a, num: 9})
		}, 1, 2, drops{session: 1}},
		"a later token wrong": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.a, num: 8}, inner{s: x.b, num: 9, wrong: 1 << 31}, inner{s: x.a, num: 9})
		}, 1, 2, drops{token: 1}},
		"a session of another peer": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.a, num: 8}, inner{s: x.c, num: 8}, inner{s: x.b, num: 8})
		}, 1, 2, drops{token: 1}},
		"a session that did not agree": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.old, num: 8}, inner{s: x.a, num: 8}, inner{s: x.old, num: 9})
		}, 1, 1, drops{bundle: 2}},
		"with checksums": {func(x *bundleStub) []byte {
			return bundled(true,
				inner{s: x.sum, num: 8}, inner{s: x.sum2, num: 8}, inner{s: x.sum, num: 9})
		}, 1, 3, drops{}},
		"damaged": {func(x *bundleStub) []byte {
			return flip(bundled(true, inner{s: x.sum, num: 8}, inner{s: x.sum2, num: 8}), 53)
		}, 1, 0, drops{token: 1, bundle: 1}},
		"checksums behind none": {func(x *bundleStub) []byte {
			return bundled(false,
				inner{s: x.a, num: 8}, inner{s: x.sum, num: 8}, inner{s: x.b, num: 8})
		}, 1, 2, drops{bundle: 1}},
		"none behind checksums": {func(x *bundleStub) []byte {
			return bundled(true,
				inner{s: x.sum, num: 8}, inner{s: x.b, num: 8}, inner{s: x.sum, num: 9})
		}, 1, 2, drops{bundle: 1}},
		"a length that lies": {func(x *bundleStub) []byte {
			p := bundled(false, inner{s: x.a, num: 8}, inner{s: x.a, num: 9})
			return p[:len(p)-1]
		}, 1, 0, drops{malformed: 1}},
		"a count that lies": {func(x *bundleStub) []byte {
			p := bundled(false, inner{s: x.a, num: 8}, inner{s: x.a, num: 9})
			p[1]++
			return p
		}, 1, 0, drops{malformed: 1}},
		"a bundle inside": {func(x *bundleStub) []byte {
			p := bundled(false, inner{s: x.a, num: 8}, inner{s: x.a, num: 9})
			p[wire.BundleHeaderSize] |= byte(wire.TypeBundle)
			return p
		}, 1, 0, drops{malformed: 1}},
		"only a header": {func(x *bundleStub) []byte {
			return bundled(false, inner{s: x.a, num: 8})[:wire.BundleHeaderSize]
		}, 1, 0, drops{malformed: 1}},
	} {
		x := newBundleStub(t)
		before := x.stats
		st := x.stub
		st.end.in = append(st.end.in, transport.RxPacket{Data: c.make(x), From: stubAddr(c.from)})
		st.pass(1000)
		s := &x.stats
		got := drops{
			s.DropMalformed - before.DropMalformed, s.DropNoSession - before.DropNoSession,
			s.DropToken - before.DropToken, s.DropBundle - before.DropBundle,
		}
		if x.ran != c.ran || got != c.drop {
			t.Errorf("%s: %d handlers ran, want %d; drops %+v, want %+v", name, x.ran, c.ran, got, c.drop)
		}
	}
}

// TestBundleOut: the answers to what came in a burst leave in one datagram for each peer; alone if
// there is one only, and where a session did not agree on bundles.
func TestBundleOut(t *testing.T) {
	x := newBundleStub(t)
	for _, p := range [][]byte{
		bundled(false, inner{s: x.a, num: 8}, inner{s: x.b, num: 8}),
		bundled(false, inner{s: x.a, num: 9}),
	} {
		x.end.in = append(x.end.in, transport.RxPacket{Data: p, From: stubAddr(1)})
	}
	x.end.in = append(x.end.in, transport.RxPacket{
		Data: bundled(false, inner{s: x.c, num: 8}), From: stubAddr(2),
	})
	lone := make([]byte, wire.HeaderSize)
	h := wire.Header{Type: wire.TypeReq, Session: x.old.End.Local, ReqNum: 8}
	h.Put(lone, x.old.End.LocalToken)
	x.end.in = append(x.end.in, transport.RxPacket{Data: lone, From: stubAddr(1)})
	x.pass(1000)
	counts := map[int]int{} // by size
	for _, p := range x.end.sent {
		var b wire.Bundle
		var h wire.Header
		if b.Parse(p.data) != nil {
			counts[-1]++
			continue
		}
		n := 0
		for _, ok := b.Next(&h); ok; _, ok = b.Next(&h) {
			n++
		}
		counts[n]++
	}
	if x.ran != 5 || len(x.end.sent) != 3 || counts[3] != 1 || counts[-1] != 2 {
		t.Errorf("%d handlers ran; datagrams by their packets: %v", x.ran, counts)
	}
	if in, out := x.stats.RxBundled, x.Out.Bundled; in != 4 || out != 3 {
		t.Errorf("%d packets came in bundles, %d left in some", in, out)
	}
}

// TestBundleAgreement: bundles take both sides, and memory that the sender cannot change, or where
// packets alone are cheaper.
func TestBundleAgreement(t *testing.T) {
	for _, c := range []struct{ off, alone, shared, features, agreed bool }{
		{features: true, agreed: true}, {off: true, features: true}, {}, {alone: true, features: true},
		{shared: true, features: true},
	} {
		st := newStub(t, setup{NoBundles: c.off}, func(h request) { h.answer(nil) })
		st.end.way.Alone, st.end.way.Shared = c.alone, c.shared
		f := wire.Features(0)
		if c.features {
			f = wire.FeatureBundle
		}
		served := st.connectWith(1, 7, 1, f)
		dialled := st.dialTo(1)
		offered := dialled.dialer.Connect.Offer.Features
		if (offered&wire.FeatureBundle != 0) == (c.off || c.alone || c.shared) {
			t.Errorf("%+v: the offer has features %#x", c, offered)
		}
		if served.End.Bundles != c.agreed {
			t.Errorf("%+v: agreed %v", c, served.End.Bundles)
		}
		st.end.sent = nil
		for num := range uint64(2) {
			h := wire.Header{Type: wire.TypeReq, Session: served.End.Local, ReqNum: 8 + num}
			lone := make([]byte, wire.HeaderSize)
			h.Put(lone, served.End.LocalToken)
			st.end.in = append(st.end.in, transport.RxPacket{Data: lone, From: stubAddr(1)})
		}
		st.pass(1000)
		got := 0
		for _, p := range st.end.sent {
			if wire.IsBundle(p.data) {
				got++
			}
		}
		if (got == 1) != c.agreed || got > 1 {
			t.Errorf("%+v: %d bundles", c, got)
		}
	}
}

// connectWith is connectFrom with features.
func (st *stub) connectWith(i int, epoch, nonce uint64, f wire.Features) *Conn {
	st.tb.Helper()
	p := session.Params{Slots: 8, Credits: 8, PerPacket: 1000, MaxMessage: 1 << 20}
	o := p.Offer()
	o.Features = f
	return st.connectOffer(i, epoch, nonce, o)
}
