package engine

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestPeerTable compares the table with maps: sessions join the incarnation of an address and
// leave it, and what is known of the incarnations that opened sessions here follows.
func TestPeerTable(t *testing.T) {
	st := newStub(t, setup{})
	rapid.Check(t, func(t *rapid.T) {
		table := newAssocTable(st.rng, &st.cfg.Shares)
		peers := map[peerKey]map[*Conn]bool{}
		type incarnation struct {
			epoch    uint64
			sessions int
		}
		epochs := map[transport.Addr]*incarnation{}
		var live []*Conn
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			addr := stubAddr(rapid.IntRange(0, 2).Draw(t, "addr"))
			epoch := rapid.Uint64Range(1, 3).Draw(t, "epoch")
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op < 2:
				s := newStubConn(true)
				if op == 1 {
					s = newStubConn(false)
					table.addEpoch(loopAddr{addr: addr}, epoch)
					if epochs[addr] == nil {
						epochs[addr] = &incarnation{}
					}
					epochs[addr].epoch = epoch
					epochs[addr].sessions++
				}
				s.End.Peer, s.epoch = addr, epoch
				table.join(s, table.plainFor(peerKey{addr, epoch}, 0), new(session.Params), 1)
				key := peerKey{addr, epoch}
				if peers[key] == nil {
					peers[key] = map[*Conn]bool{}
				}
				peers[key][s] = true
				live = append(live, s)
			case op == 2 && len(live) > 0:
				i := rapid.IntRange(0, len(live)-1).Draw(t, "leave")
				s := live[i]
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
				key := peerKey{s.End.Peer, s.epoch}
				if delete(peers[key], s); len(peers[key]) == 0 {
					delete(peers, key)
				}
				for range 2 { // the second time nothing happens
					table.leave(s, 1)
				}
				if s.Server != nil {
					table.dropEpoch(loopAddr{addr: s.End.Peer})
					if epochs[s.End.Peer].sessions--; epochs[s.End.Peer].sessions == 0 {
						delete(epochs, s.End.Peer)
					}
				}
			case op == 3:
				known := epochs[addr]
				want := known != nil && known.epoch != epoch && len(peers[peerKey{addr, known.epoch}]) > 0
				if got := table.noteEpoch(loopAddr{addr: addr}, epoch); got != want {
					t.Fatalf("sessions of another incarnation are suspected: %v, want %v", got, want)
				}
				if want {
					p := table.plain[peerKey{addr, known.epoch}]
					if p.suspect < 1 {
						t.Fatal("nobody is to ask")
					}
					p.suspect = 0
				}
			}
			table.check()
			if len(table.plain) != len(peers) || len(table.epochs) != len(epochs) {
				t.Fatalf("%d peers, %d addresses; want %d, %d", len(table.plain), len(table.epochs),
					len(peers), len(epochs))
			}
			for key, sessions := range peers {
				p := table.plain[key]
				if p == nil || len(p.sessions) != len(sessions) {
					t.Fatalf("peer %v: %+v, want %d sessions", key, p, len(sessions))
				}
				for s := range sessions {
					if s.assoc != p {
						t.Fatal("a session has another peer")
					}
				}
			}
			for addr, e := range epochs {
				got := table.epochs[loopAddr{addr: addr}]
				if got == nil || *got != (peerEpoch{e.epoch, e.sessions}) {
					t.Fatalf("address %v: %+v, want %+v", addr, got, e)
				}
			}
		}
	})
}

// TestPeerTableCheck: what check is to notice.
func TestPeerTableCheck(t *testing.T) {
	st := newStub(t, setup{})
	for name, spoil := range map[string]func(*assocTable, *association){
		"a peer without a session": func(_ *assocTable, p *association) { p.sessions = nil },
		"a place at the peer":      func(_ *assocTable, p *association) { p.sessions[0].listed = 1 },
		"a session of another peer": func(_ *assocTable, p *association) {
			p.sessions[1].assoc = &association{}
		},
		"a client too many":          func(_ *assocTable, p *association) { p.clients++ },
		"a place in the list":        func(_ *assocTable, p *association) { p.at++ },
		"a peer that is elsewhere":   func(t *assocTable, p *association) { delete(t.byAddr, p.addr) },
		"a session sealed by others": func(_ *assocTable, p *association) { p.sessions[0].End.Via++ },
		"an index that is not there": func(_ *assocTable, p *association) { p.field = 1 << 16 },
	} {
		table := newAssocTable(st.rng, &st.cfg.Shares)
		for i := range 4 {
			s := newStubConn(true)
			s.End.Peer = stubAddr(i / 2)
			table.join(s, table.plainFor(peerKey{s.End.Peer, 0}, 0), new(session.Params), 1)
		}
		table.check()
		spoil(&table, table.watched[0])
		if !panics(table.check) {
			t.Errorf("%s: check does not notice", name)
		}
	}
}

// TestSuspects: a question is asked for each session that a peer has, and new suspicions while some
// are to be asked yet add none.
func TestSuspects(t *testing.T) {
	st := newStub(t, setup{})
	var all []*Conn
	for range 5 {
		s := st.dialTo(1)
		st.accepted(s, 1, 3)
		all = append(all, s)
	}
	p := all[0].assoc
	p.suspectAll()
	p.suspect = 2
	p.suspectAll()
	if p.suspect != 2 {
		t.Fatalf("%d are to ask, want those that had not", p.suspect)
	}
	p.suspect = 0
	p.suspectAll()
	st.pass(time.Second)
	asked := map[uint32]bool{}
	for _, x := range st.end.sent {
		var a wire.Alive
		a.Parse(x.data[wire.HeaderSize:])
		asked[a.Session] = true
	}
	if len(asked) != len(all) || p.suspect != 0 {
		t.Errorf("%d of %d sessions asked", len(asked), len(all))
	}
	st.end.sent = nil
	st.close()
}

// TestSweepMissesNobody: peers that leave the table in the middle of a sweep, since their sessions
// were closing, take no other peer's turn.
func TestSweepMissesNobody(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st := newStub(rt, setup{
			Timing: session.Timing{DisconnectLinger: time.Hour, ConnectRetry: time.Hour},
		})
		type one struct {
			s    *Conn
			fate string
		}
		var all []one
		for i := range rapid.IntRange(1, 6).Draw(rt, "peers") {
			for range rapid.IntRange(1, 2).Draw(rt, "sessions") {
				s := st.dialTo(i)
				st.accepted(s, i, 3)
				fate := rapid.SampledFrom([]string{"dies", "dies closing", "lives"}).Draw(rt, "fate")
				all = append(all, one{s, fate})
				if fate == "dies closing" {
					st.closeConn(s)
				}
			}
		}
		alive := map[*association]bool{}
		for _, x := range all {
			if x.fate == "lives" {
				alive[x.s.assoc] = true
			}
		}
		at := st.now
		for _, p := range st.assocs.watched {
			if p.watch.Heard(1); alive[p] {
				p.watch.Heard(at.Add(10 * time.Second))
			} else {
				for i := range 3 { // it was asked already
					p.watch.PingDue(monotime.Time(i+1)*1e9, 1, 1, time.Hour)
				}
			}
		}
		st.pass(10 * time.Second)
		left := map[*association]bool{}
		for _, p := range st.assocs.watched {
			left[p] = true
		}
		st.assocs.check()
		st.table.check()
		if len(left) != len(alive) {
			rt.Fatalf("%d peers are left, %d live", len(left), len(alive))
		}
		for _, x := range all {
			switch lost := errors.Is(x.s.Err(), ErrPeerLost); {
			case x.fate == "dies" && !left[x.s.assoc] && !lost, x.fate == "lives" && x.s.Err() != nil:
				rt.Fatalf("a session that %s ended with %v", x.fate, x.s.Err())
			case x.fate == "dies closing" && !errors.Is(x.s.Err(), ErrClosed):
				rt.Fatalf("a session that was closed ended with %v", x.s.Err())
			}
		}
		st.close()
	})
}
