package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// indices returns how many indices are in use. Each of the table is in use or free.
func (t *assocTable) indices(tb failer) (used int) {
	tb.Helper()
	t.check()
	for _, a := range t.places {
		if a != nil {
			used++
		}
	}
	free := map[uint16]bool{}
	for _, place := range t.free {
		free[place] = true
		if t.places[place] != nil {
			tb.Fatalf("index %d is free and in use", place)
		}
	}
	if len(free) != len(t.free) || used+len(free) != len(t.places) {
		tb.Fatalf("%d indices: %d in use, %d free, in %d entries", len(t.places), used, len(free),
			len(t.free))
	}
	return used
}

// nothingLeft fails if an endpoint without sessions remembers anything of its peers.
func (st *stub) nothingLeft(what string) {
	st.tb.Helper()
	e := &st.Engine
	for name, n := range map[string]int{
		"indices": e.assocs.indices(st.tb), "plain peers": len(e.assocs.plain),
		"dialled": len(e.assocs.dialled), "addresses": len(e.assocs.byAddr),
		"watched": len(e.assocs.watched), "idle": len(e.assocs.idle), "probes": len(e.assocs.probes),
		"epochs": len(e.assocs.epochs), "sessions": e.table.live, "attempts": len(e.table.byKey),
		"repeated": len(e.handshakes.repeating), "quotas": len(e.quotas.byKey),
		"quotas to close": st.opened,
	} {
		if n != 0 {
			st.tb.Fatalf("%s: %s: %d are left", what, name, n)
		}
	}
	sec := e.security
	if sec == nil {
		return
	}
	o := &sec.halfOpen
	if len(sec.dials)+len(sec.leaders)+len(o.byKey)+len(o.shares)+o.cost+o.charged != 0 {
		st.tb.Fatalf("%s: %d dials, %d leaders, %d pending handshakes of %d shares, %d bytes, "+
			"%d charged are left", what, len(sec.dials), len(sec.leaders), len(o.byKey),
			len(o.shares), o.cost, o.charged)
	}
}

// quiet lets so much time pass that both sides of a session forget each other.
func (p *pendingRig) quiet() {
	for i := range p.clients {
		for range 400 {
			p.turn(i, 50*time.Millisecond)
		}
	}
}

// lose has both ends of client 0 lose all for a while.
func (p *pendingRig) lose(d time.Duration) {
	for range 10 {
		for _, st := range []*stub{p.clients[0], p.server} {
			st.end.in = nil
			st.pass(d / 10)
			st.end.sent = nil
		}
	}
}

// TestIndicesComeBack: whatever becomes of an attempt to connect, and after however many packets of
// it, no index, handshake or address is left of it once the keys have been out of use
// for lingerFor.
func TestIndicesComeBack(t *testing.T) {
	ca := sectest.NewCA("ours")
	shared := ca.Config(tlsHost, "")
	shared.ServerName = tlsHost
	deny := func(context.Context, *Identity) error { return errors.New("not today") }
	for name, c := range map[string]struct {
		cfg, mine setup // of the server, of the client
		end       func(p *pendingRig, s *Conn)
	}{
		"closed":          {setup{PSK: testPSK}, setup{PSK: testPSK}, closeOpening},
		"closed, TLS":     {setup{TLS: shared}, setup{TLS: shared}, closeOpening},
		"lost":            {setup{PSK: testPSK}, setup{PSK: testPSK}, loseOpening},
		"lost, TLS":       {setup{TLS: shared}, setup{TLS: shared}, loseOpening},
		"refused":         {setup{PSK: testPSK}, setup{PSK: testPSK}, refuseOpening},
		"refused, TLS":    {setup{TLS: shared}, setup{TLS: shared}, refuseOpening},
		"denied":          {setup{PSK: testPSK, Authorize: deny}, setup{PSK: testPSK}, waitOpening},
		"denied, TLS":     {setup{TLS: shared, Authorize: deny}, setup{TLS: shared}, waitOpening},
		"denied there":    {setup{PSK: testPSK}, setup{PSK: testPSK, Authorize: deny}, waitOpening},
		"another key":     {setup{PSK: testPSK}, setup{PSK: [][]byte{make([]byte, 32)}}, waitOpening},
		"keys of a kind":  {setup{TLS: shared}, setup{PSK: testPSK}, waitOpening},
		"without any":     {setup{TLS: shared}, setup{}, waitOpening},
		"a plain server":  {setup{}, setup{TLS: shared}, waitOpening},
		"nobody is there": {setup{PSK: testPSK}, setup{PSK: testPSK}, silence},
	} {
		for known := range 2 { // the second time by keys that are known, if there are any
			for turns := range 7 {
				what := fmt.Sprintf("%s, known %d, after %d turns", name, known, turns)
				p := &pendingRig{server: newStub(t, c.cfg)}
				s := p.dial(t, c.mine)
				for range 8 * known {
					p.turn(0, time.Microsecond)
				}
				if known == 1 {
					p.clients[0].closeConn(s)
					p.turn(0, time.Microsecond)
					s = p.clients[0].dialTo(1)
				}
				another := p.clients[0].dialTo(1) // waits for the first one
				for range turns {
					p.turn(0, time.Microsecond)
				}
				c.end(p, s)
				c.end(p, another)
				p.quiet()
				p.clients[0].nothingLeft(what + ", client")
				p.server.nothingLeft(what + ", server")
			}
		}
	}
}

func closeOpening(p *pendingRig, s *Conn) {
	p.clients[0].closeConn(s)
	for range 4 {
		p.turn(0, time.Microsecond)
	}
}

func loseOpening(p *pendingRig, s *Conn) {
	p.lose(10 * time.Second)
	closeOpening(p, s)
}

func refuseOpening(p *pendingRig, s *Conn) {
	p.server.RefuseNew()
	waitOpening(p, s)
}

func waitOpening(p *pendingRig, s *Conn) {
	for range 200 {
		p.turn(0, 50*time.Millisecond)
	}
	closeOpening(p, s)
}

func silence(p *pendingRig, s *Conn) {
	p.lose(time.Minute)
	closeOpening(p, s)
}

// TestOpensAtTheEnd: a session that begins to open by keys which are about to be forgotten opens,
// though its first packets are lost until after that time.
func TestOpensAtTheEnd(t *testing.T) {
	for _, early := range []time.Duration{2 * time.Second, time.Millisecond, -time.Millisecond} {
		p := &pendingRig{server: newStub(t, setup{PSK: testPSK})}
		s, err := p.join(t, setup{PSK: testPSK})
		if err != nil {
			t.Fatal(err)
		}
		closeOpening(p, s)
		p.clients[0].pass(lingerFor - early)
		p.server.pass(lingerFor - early)
		s = p.clients[0].dialTo(1)
		p.turn(0, time.Microsecond)
		p.turn(0, time.Microsecond)
		p.lose(400 * time.Millisecond)
		for range 100 {
			p.turn(0, 20*time.Millisecond)
		}
		if !s.Open() {
			t.Errorf("%v before: the session is not open: %v", early, s.Err())
		}
		closeOpening(p, s)
		p.quiet()
		p.clients[0].nothingLeft("the client")
		p.server.nothingLeft("the server")
	}
}

// TestBadAccepts: what accepts no session leaves nothing, whatever it says.
func TestBadAccepts(t *testing.T) {
	st := newStub(t, setup{})
	s := st.dialTo(1)
	c := s.dialer.Connect
	ch := wire.Challenge{Nonce: c.Nonce, Cookie: [wire.CookieSize]byte{1}}
	st.receive(1, wire.OpChallenge, c.Session, c.Token, wire.ChallengeSize, ch.Put)
	for i := range uint64(100) {
		a := wire.Accept{Nonce: c.Nonce + 1, Epoch: i, Session: 5, Token: 6, Offer: c.Offer}
		if i == 99 {
			a.Nonce, a.Offer.Slots = c.Nonce, c.Offer.Slots+1
		}
		st.receive(1, wire.OpAccept, c.Session, c.Token, wire.AcceptSize, a.Put)
		st.pass(1000)
	}
	if !errors.Is(s.Err(), ErrRefused) {
		t.Fatalf("the session: %v", s.Err())
	}
	st.pass(10 * time.Millisecond)
	st.nothingLeft("100 bad Accepts")
}

// TestIndexRests: an index that is free again waits until as many others as restPlaces have become
// free after it, and then has another generation.
func TestIndexRests(t *testing.T) {
	table := newAssocTable(rand.New(rand.NewPCG(2, 7)), new(Shares))
	table.loop = 5
	var used []*association
	freed := map[uint32]int{} // when each place became free, counted in releases
	last := map[uint32]uint32{}
	releases := 0
	r := rand.New(rand.NewPCG(1, 7))
	for i := range 200_000 {
		if len(used) > 0 && (len(used) > 500 || r.IntN(2) == 0) {
			k := r.IntN(len(used))
			a := used[k]
			used[k] = used[len(used)-1]
			used = used[:len(used)-1]
			table.release(a)
			table.release(a) // the second time nothing happens
			releases++
			freed[a.field%maxPlaces] = releases
			if table.find(a.field) != nil {
				t.Fatal("found behind its end")
			}
			continue
		}
		a := new(association)
		if !table.reserve(a) {
			t.Fatal("no index is left")
		}
		used = append(used, a)
		place := a.field % maxPlaces
		if at, ok := freed[place]; ok && releases-at < restPlaces {
			t.Fatalf("place %d was used again after %d releases", place, releases-at)
		}
		if !wire.IsSession(a.field) || a.field&wire.NoSession == 0 || a.field == last[place] ||
			wire.LoopOf(a.field) != 5 || table.find(a.field) != a {
			t.Fatalf("index %08x, after %08x", a.field, last[place])
		}
		last[place] = a.field
		if i%1000 == 0 {
			table.indices(t)
		}
	}
	if n := len(table.places); n > 500+restPlaces+1 {
		t.Errorf("%d places for 500 associations", n)
	}
}

// TestIndicesAreBounded: an endpoint has at most maxPlaces associations. One more is refused, on
// either side; when one has gone there is room again.
func TestIndicesAreBounded(t *testing.T) {
	p := &pendingRig{server: newStub(t, setup{PSK: testPSK})}
	fill := func(st *stub) (last *association) {
		for n := 0; ; n++ {
			a := new(association)
			if !st.assocs.reserve(a) {
				if n != maxPlaces {
					t.Errorf("%d indices", n)
				}
				return last
			}
			last = a
		}
	}
	of := fill(p.server)
	if _, err := p.join(t, setup{PSK: testPSK}); !errors.Is(err, ErrExhausted) {
		t.Errorf("the server has no index: %v", err)
	}
	p.server.assocs.release(of)
	if _, err := p.join(t, setup{PSK: testPSK}); err != nil {
		t.Errorf("the server has one: %v", err)
	}
	c := p.clients[0]
	of = fill(c)
	for free := range 2 {
		if free > 0 {
			c.assocs.release(of)
		}
		s := c.dialTo(1)
		c.pass(time.Millisecond)
		if got := errors.Is(s.Err(), ErrExhausted); got != (free == 0) {
			t.Errorf("%d indices are left: %v", free, s.Err())
		}
	}
}

// restFrom makes an association without sessions, of an address in some network.
func (st *stub) restFrom(network byte, port int) *association {
	st.tb.Helper()
	a := &association{keys: new(security.Association)}
	a.addr.IP[0], a.addr.IP[7], a.addr.Port = 0x20, network, uint32(port)
	if !st.assocs.reserve(a) {
		st.tb.Fatal("no index")
	}
	st.assocs.enter(a, st.now)
	return a
}

// TestIdleAreBounded: of associations without sessions the newest maxIdle stay.
func TestIdleAreBounded(t *testing.T) {
	st := newStub(t, setup{PSK: testPSK})
	var all []*association
	for i := range maxIdle + 1000 {
		all = append(all, st.restFrom(byte(i%8), i))
	}
	st.pass(time.Second)
	if n := st.assocs.indices(t); n != maxIdle {
		t.Errorf("%d are left", n)
	}
	for i, a := range all {
		if known := st.assocs.find(a.field) != nil; known != (i >= 1000) {
			t.Fatalf("%d of %d is known: %v", i, len(all), known)
		}
	}
	for range 100 {
		st.pass(200 * time.Millisecond)
	}
	st.nothingLeft("after a while")
}

// TestIdleOfQuotas: a client that makes many associations without sessions, or many sessions one
// after the other on one association, has its own forgotten and no others.
func TestIdleOfQuotas(t *testing.T) {
	st := newStub(t, setup{PSK: testPSK})
	var others, own []*association
	for i := range 3 * maxIdle / quotaDivisor {
		others = append(others, st.restFrom(byte(i%3), i))
	}
	for i := range maxIdle {
		own = append(own, st.restFrom(9, i))
	}
	busy := st.restFrom(10, 0)
	for range 2 * maxIdle {
		s := newStubConn(false)
		st.assocs.join(s, busy, &session.Params{}, st.now)
		st.assocs.leave(s, st.now)
	}
	st.pass(time.Second)
	known := func(list []*association) (n int) {
		for i, a := range list {
			if st.assocs.find(a.field) == nil {
				continue
			}
			if n++; i < len(list)-maxIdle/quotaDivisor && len(list) == len(own) {
				t.Fatalf("an older one of its own is known: %d of %d", i, len(list))
			}
		}
		return n
	}
	if n := known(others); n < len(others)-1 { // all with busy are one too many
		t.Errorf("%d of %d others are left", n, len(others))
	}
	if n := known(own); n != maxIdle/quotaDivisor {
		t.Errorf("%d of its own are left", n)
	}
	for range 100 {
		st.pass(200 * time.Millisecond)
	}
	st.nothingLeft("after a while")
}

// TestIndicesOfIncarnations: an endpoint that restarts does not have the indices of the one before:
// by these its peers learn at once that it has.
func TestIndicesOfIncarnations(t *testing.T) {
	before := map[uint32]uint64{}
	for seed := range uint64(300) {
		table := newAssocTable(rand.New(rand.NewPCG(seed, 3)), new(Shares))
		for range 3 {
			a := new(association)
			table.reserve(a)
			if old, ok := before[a.field]; ok {
				t.Errorf("incarnations %d and %d have the index %x", old, seed, a.field)
			}
			before[a.field] = seed
		}
	}
}

// TestWrongGeneration: a datagram with an index that had another association before is dropped
// before keys are tried: they count no forgery, and nothing is heard.
func TestWrongGeneration(t *testing.T) {
	p := &pendingRig{server: newStub(t, setup{PSK: testPSK})}
	if _, err := p.join(t, setup{PSK: testPSK}); err != nil {
		t.Fatal(err)
	}
	st := p.server
	a := st.assocs.byAddr[stubAddr(2)][0]
	st.pass(time.Second)
	st.end.sent = nil
	for gen := range 256 {
		pkt := wire.AppendSealed(nil, 1<<30, a.field&^(255<<placeBits)|uint32(gen)<<placeBits)
		pkt = append(pkt, make([]byte, 64)...)
		before, own := a.keys.Forged(), uint32(gen) == a.field>>placeBits&255
		st.end.in = append(st.end.in, transport.RxPacket{Data: pkt, From: stubAddr(2)})
		st.pass(time.Microsecond)
		if tried := a.keys.Forged() != before; tried != own || a.watch.HeardSince(st.now-1000) {
			t.Errorf("generation %d: keys were tried: %v", gen, tried)
		}
		if ops := st.take(); len(ops) > 1 || len(ops) == 1 && (own || ops[0] != wire.OpNoKeys) {
			t.Errorf("generation %d drew %v", gen, ops)
		}
	}
}
