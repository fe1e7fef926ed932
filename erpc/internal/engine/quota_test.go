package engine

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// addrOf returns an address from its text, with a scope if it is not 0.
func addrOf(text string, scope uint32) transport.Addr {
	return transport.AddrFrom(netip.MustParseAddrPort(text), scope)
}

// TestQuotaKey: which addresses count together.
func TestQuotaKey(t *testing.T) {
	def, wide := Shares{IPv4Bits: 32, IPv6Bits: 64}, Shares{IPv4Bits: 24, IPv6Bits: 48}
	for _, c := range []struct {
		cfg   *Shares
		a, b  string
		scope uint32 // of b
		same  bool
	}{
		{&def, "10.0.0.1:1", "10.0.0.1:2", 0, true},
		{&def, "10.0.0.1:1", "[::ffff:10.0.0.1]:1", 0, true},
		{&def, "10.0.0.1:1", "10.0.0.2:1", 0, false},
		{&wide, "10.0.0.1:1", "10.0.0.2:1", 0, true},
		{&wide, "10.0.0.1:1", "10.0.1.1:1", 0, false},
		{&def, "[2001:db8::1]:1", "[2001:db8::2]:2", 0, true},
		{&def, "[2001:db8::1]:1", "[2001:db8:0:1::1]:1", 0, false},
		{&wide, "[2001:db8::1]:1", "[2001:db8:0:1::1]:1", 0, true},
		{&def, "[fe80::1]:1", "[fe80::2]:1", 0, false}, // one link, many hosts
		{&def, "[fe80::1]:1", "[fe80::1]:1", 3, false}, // two links
		{&def, "[100::1]:1", "[100::1]:2", 0, false},   // shared memory
		{&wide, "[100::1]:1", "[100::2]:1", 0, false},  // shared memory
		{&def, "[100:0:0:1::1]:1", "[100:0:0:1::2]:2", 0, true},
	} {
		a, b := c.cfg.Key(addrOf(c.a, 0)), c.cfg.Key(addrOf(c.b, c.scope))
		if (a == b) != c.same {
			t.Errorf("%s and %s%%%d: the same is %v, want %v", c.a, c.b, c.scope, a == b, c.same)
		}
	}
}

// TestFair: who asks gets three quarters, and only who has less than a quota gets the rest.
func TestFair(t *testing.T) {
	on, off := &Shares{}, &Shares{Off: true}
	for _, c := range []struct {
		cfg                    *Shares
		all, own, limit, users int
		want                   bool
	}{
		{on, 0, 0, 1, 1, true}, {on, 1, 1, 1, 1, false}, // limits below four are not shared
		{on, 2, 2, 3, 1, true}, {on, 3, 0, 3, 1, false},
		{on, 2, 2, 4, 1, true}, {on, 3, 3, 4, 1, false}, {on, 3, 0, 4, 2, true},
		{on, 74, 74, 100, 1, true}, {on, 75, 75, 100, 1, false}, {on, 75, 49, 100, 1, true},
		{on, 75, 0, 100, 2, true}, {on, 90, 33, 100, 2, false}, {on, 90, 32, 100, 2, true},
		{on, 100, 0, 100, 2, false}, {on, 99, 0, 100, 99, true}, {on, 99, 0, 100, 100, false},
		{off, 99, 99, 100, 1, true}, {off, 100, 0, 100, 2, false},
	} {
		if got := c.cfg.Fair(c.all, c.own, c.limit, c.users); got != c.want {
			t.Errorf("%d of %d, own %d, users %d: %v", c.all, c.limit, c.own, c.users, got)
		}
	}
}

// TestMemoryBook compares a book with sums: nobody passes a limit or, in the last quarter, a
// quota, and what comes back is all there again.
func TestMemoryBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 1000
		fair := rapid.Bool().Draw(t, "fair")
		book := NewBook(msgbuf.NewBudget(limit), fair)
		var hs []*holder
		for i := range 4 {
			hs = append(hs, book.open(stubAddrOf(i)))
		}
		own := make([]int64, len(hs))
		all, users := int64(0), 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			i := rapid.IntRange(0, 3).Draw(t, "who")
			n := rapid.Int64Range(1, 400).Draw(t, "n")
			if rapid.Bool().Draw(t, "give") {
				n = min(n, own[i])
				hs[i].Give(n)
				own[i] -= n
				all -= n
			} else {
				why := hs[i].Take(n)
				after := users
				if own[i] == 0 {
					after++
				}
				want := session.Granted
				if all+n > limit {
					want = session.NoMemory
				} else if fair && all+n > limit*3/4 && own[i]+n > int64(limit/(after+1)) {
					want = session.AddrQuotaUsed
				}
				if why != want {
					t.Fatalf("%d of %d, own %d, %d more: %v, want %v", all, limit, own[i], n, why, want)
				}
				if why == session.Granted {
					own[i] += n
					all += n
				}
			}
			users = 0
			for _, n := range own {
				if n > 0 {
					users++
				}
			}
			if book.used.Load() != all || book.users.Load() != int64(users) ||
				hs[i].used.Load() != own[i] || book.scarce() != (all > limit*3/4) {
				t.Fatalf("book %d of %d users, want %d of %d", book.used.Load(), book.users.Load(), all, users)
			}
		}
		for i, h := range hs {
			h.Give(own[i])
			book.close(h)
		}
		if book.used.Load() != 0 || book.users.Load() != 0 || len(book.holders) != 0 {
			t.Fatal("something is left")
		}
	})
}

// TestLean: how far a peer gets ahead, over all endpoints.
func TestLean(t *testing.T) {
	book := NewBook(msgbuf.NewBudget(1<<30), true)
	h := book.open(stubAddrOf(0))
	if same := book.open(stubAddrOf(0)); same != h {
		t.Fatal("two holders for one address")
	}
	if !h.Lean(maxLean) || h.Lean(1) || h.lean.Load() != maxLean {
		t.Error("the peer leans too far, or too little")
	}
	if h.Lean(-10); !h.Lean(10) || h.Lean(1) {
		t.Error("what came back is not there")
	}
}

// TestHolderRaces: endpoints in several goroutines use one holder.
func TestHolderRaces(t *testing.T) {
	book := NewBook(msgbuf.NewBudget(1000), true)
	var done sync.WaitGroup
	for i := range 4 {
		done.Go(func() {
			for range 1000 {
				h := book.open(stubAddrOf(i % 2))
				if h.Take(300) == session.Granted {
					h.Give(300)
				}
				if h.Lean(maxLean / 2) {
					h.Lean(-maxLean / 2)
				}
				book.close(h)
			}
		})
	}
	done.Wait()
	if book.used.Load() != 0 || book.users.Load() != 0 || len(book.holders) != 0 {
		t.Error("something is left")
	}
}

// stubAddrOf is an address of host i.
func stubAddrOf(i int) (a transport.Addr) {
	a = stubAddr(0)
	a.IP[7] = byte(i + 1) // a network of its own
	return a
}

// admitFrom opens a session from a host, if it may.
func (st *stub) admitFrom(host, n int) (*Conn, wire.Code) {
	from := stubAddrOf(host)
	from.Port = uint32(1 + n)
	c := &wire.Connect{Nonce: uint64(n), Epoch: 1, Session: uint32(n), Offer: wire.Offer{
		MTU: stubMTU, Credits: 8, Slots: 8, MaxMessage: 1 << 20,
	}}
	return st.admit(c, wire.Version, &association{addr: from, epoch: 1})
}

// TestSessionQuotas: a hog gets three quarters of the sessions, ten others their quota of the
// rest, and all of it is free again when they end.
func TestSessionQuotas(t *testing.T) {
	const limit = 400
	st := newStub(t, setup{MaxSessions: limit})
	e := &st.Engine
	var open []*Conn
	number := 0
	fill := func(host, most int) (n int) {
		for range most {
			number++
			s, code := st.admitFrom(host, number)
			if code == wire.CodeExhausted {
				return n
			} else if code != wire.CodeOK {
				t.Fatal(code)
			}
			open = append(open, s)
			n++
		}
		return n
	}
	if n := fill(0, limit); n != limit*3/4 {
		t.Errorf("the hog has %d sessions", n)
	}
	if e.stats.SessionsOverShare != 1 {
		t.Errorf("%d refused for their quota", e.stats.SessionsOverShare)
	}
	for host := 1; host <= 10; host++ {
		if n := fill(host, 10); n != 10 {
			t.Errorf("host %d has %d sessions", host, n)
		}
	}
	if n := fill(11, 1); n != 0 || e.table.live != limit || e.stats.SessionsOverShare != 1 {
		t.Errorf("%d sessions, %d refused for their quota", e.table.live, e.stats.SessionsOverShare)
	}
	if st.opened != 11 {
		t.Errorf("%d quotas were opened", st.opened)
	}
	for _, s := range open {
		e.CloseConn(s)
	}
	st.settle()
	st.pass(2 * e.cfg.Timing.DisconnectLinger)
	if len(e.quotas.byKey)+st.opened != 0 || len(e.quotas.book.holders) != 0 || e.table.live != 0 {
		t.Errorf("%d quotas, %d to close, %d holders are left", len(e.quotas.byKey), st.opened,
			len(e.quotas.book.holders))
	}
	if n := fill(12, limit); n != limit*3/4 {
		t.Errorf("later: %d sessions", n)
	}
}

// TestQuotasOff: one address has everything.
func TestQuotasOff(t *testing.T) {
	st := newStub(t, setup{MaxSessions: 40, Shares: Shares{Off: true}})
	for i := range 41 {
		if _, code := st.admitFrom(0, i+1); (code == wire.CodeOK) != (i < 40) {
			t.Fatalf("session %d: %v", i, code)
		}
	}
}

// TestExpireWakes: an endpoint that has an unfinished request wakes up for it.
func TestExpireWakes(t *testing.T) {
	cfg := setup{Timing: session.Timing{Heartbeat: 3 * time.Second}} // seldom a sweep
	st := newStub(t, cfg, func(request) {})
	s, _ := st.admitFrom(0, 1)
	st.pass(time.Millisecond)
	h := wire.Header{Type: wire.TypeReq, MsgSize: 5000, ReqNum: 8}
	st.in.Now = st.now
	s.Server.OnReq(&h, make([]byte, s.End.PerPacket), &st.in, st.Out)
	st.pass(0)
	if wake := st.WakeAt().Sub(st.now); wake > st.cfg.Timing.RTOMax {
		t.Errorf("the endpoint sleeps for %v", wake)
	}
	for range 40 {
		st.now = st.now.Add(max(0, st.WakeAt().Sub(st.now)))
		s.live.Heard(st.now)
		s.assoc.watch.Heard(st.now)
		st.pass(0)
	}
	if n := st.proto.StaleRequests; n != 1 {
		t.Errorf("%d requests ended after %v", n, st.now)
	}
}
