package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
)

// carry gives what an endpoint has sent to others, all of it to each, as from peer i. It returns
// the packets.
func carry(from *stub, i int, to ...*stub) (pkts [][]byte) {
	for _, p := range from.end.sent {
		for _, st := range to {
			pkt := transport.RxPacket{Data: slices.Clone(p.data), From: stubAddr(i)}
			st.end.in = append(st.end.in, pkt)
		}
		pkts = append(pkts, p.data)
	}
	from.end.sent = nil
	return pkts
}

// askText starts a request of some text, and has its answer in *got.
func (st *stub) askText(s *Conn, text string, got *string) {
	st.tb.Helper()
	st.call(s, 0, []byte(text), func(resp []byte, err error) {
		if *got = string(resp); err != nil {
			*got = err.Error()
		}
	})
}

// theft is a member of a group who sits where another member is: each packet from her looks as one
// of the other, and she has all packets to the other. They have copied all that was in the clear.
type theft struct {
	server, member, thief *stub
	ran                   []string // requests, each with the identity under which it ran
}

func (x *theft) turn() {
	for _, st := range []*stub{x.member, x.thief} {
		st.pass(time.Microsecond)
		carry(st, 2, x.server)
	}
	x.server.pass(time.Microsecond)
	carry(x.server, 1, x.member, x.thief)
}

func newTheft(t *testing.T) *theft {
	ca := sectest.NewCA("ours")
	x := &theft{}
	x.server = newStub(t, setup{TLS: ca.Config(tlsHost, "")}, func(h request) {
		x.ran = append(x.ran, idOf(h.s).Path+" "+string(h.data))
		h.answer(h.data)
	})
	for i, st := range []**stub{&x.member, &x.thief} {
		cfg := tlsClient(ca, fmt.Sprint("spiffe://test/", []string{"member", "thief"}[i]))
		cfg.Seed = uint64(30 + i)
		*st = newStub(t, cfg)
	}
	x.thief.handshakes.epoch = x.member.handshakes.epoch
	for _, st := range []*stub{x.member, x.thief} {
		st.assocs.rng = rand.New(rand.NewPCG(1, 1)) // their indices are the same
	}
	return x
}

// opened opens a session of one of the two.
func (x *theft) opened(st *stub) *Conn {
	st.tb.Helper()
	s := st.dialTo(1)
	for range 12 {
		x.turn()
	}
	if !s.Open() {
		st.tb.Fatalf("no session: %v", s.Err())
	}
	return s
}

// TestThief: a member on the path of another, who says the other's epoch from the other's address,
// has an association of her own. Her requests run under her name alone, also those in which she
// names sessions of the other, alone or in a bundle with her own; and none of the packets to the
// other opens by her keys. The other's calls go on.
func TestThief(t *testing.T) {
	for _, first := range []string{"member", "thief"} {
		x := newTheft(t)
		var of, her, her2 *Conn
		if first == "member" {
			of = x.opened(x.member)
		}
		her, her2 = x.opened(x.thief), x.opened(x.thief)
		if of == nil {
			of = x.opened(x.member)
		}
		var a, b, c string
		x.member.askText(of, "one", &a)
		x.thief.askText(her, "two", &b)
		for range 4 {
			x.turn()
		}
		if want := []string{"/member one", "/thief two"}; !slices.Equal(x.ran, want) {
			t.Errorf("%v ran, want %v", x.ran, want)
		}
		own, others := x.sealedFor(t)
		own -= x.member.stats.DropSealed
		others -= x.thief.stats.DropSealed
		x.ran = nil
		for _, forged := range []string{"alone", "behind another", "before another"} {
			x.ran = nil
			her2.End.Remote, her2.End.RemoteToken = of.End.Remote, of.End.RemoteToken
			if forged == "behind another" {
				x.thief.askText(her, "good", &b)
			}
			x.thief.askText(her2, "forged", &c)
			if forged == "before another" {
				x.thief.askText(her, "good", &b)
			}
			x.member.askText(of, "mine", &a)
			for range 4 {
				x.turn()
			}
			if slices.ContainsFunc(x.ran, func(s string) bool {
				return s != "/member mine" && s != "/thief good"
			}) || !slices.Contains(x.ran, "/member mine") || c != "" {
				t.Errorf("forged %s: %v ran, the answer %q", forged, x.ran, c)
			}
		}
		if of.Err() != nil || a != "mine" || b != "good" {
			t.Errorf("the member: %v, %q; the thief: %q", of.Err(), a, b)
		}
		toOwn, toOthers := x.sealedFor(t)
		if got := x.thief.stats.DropSealed; others+got != toOthers || got < 3 {
			t.Errorf("the thief could not open %d packets, %d were the member's", got, toOthers-others)
		}
		if got := x.member.stats.DropSealed; own+got != toOwn || got < 3 {
			t.Errorf("the member could not open %d packets, %d were the thief's", got, toOwn-own)
		}
	}
}

// sealedFor returns how many packets the server has sealed for the thief, and for the member.
func (x *theft) sealedFor(t *testing.T) (thief, member uint64) {
	all := x.server.assocs.byAddr[stubAddr(2)]
	if len(all) != 2 {
		t.Fatalf("%d associations", len(all))
	}
	for _, a := range all {
		if SPIFFE(a.state.certificate()).Path == "/thief" {
			thief += a.keys.Counter()
		} else {
			member += a.keys.Counter()
		}
	}
	return thief, member
}

// TestTwoNames: an attacker on the path leads a client that dials a second name to another member,
// at the address and with the epoch of the first. The client's sessions with the first use its keys
// as before, and each name's requests go to that name.
func TestTwoNames(t *testing.T) {
	ca := sectest.NewCA("ours")
	var ran []string
	server := func(name string) *stub {
		return newStub(t, setup{TLS: ca.Config(name, "")}, func(h request) {
			ran = append(ran, name+" "+string(h.data))
			h.answer([]byte(name))
		})
	}
	a, b := server("a.test"), server("b.test")
	b.handshakes.epoch = a.handshakes.epoch
	client := newStub(t, setup{TLS: ca.Config("", "spiffe://test/client")})
	turn := func(to ...*stub) {
		client.pass(time.Microsecond)
		carry(client, 2, to...)
		for _, st := range []*stub{a, b} {
			st.pass(time.Microsecond)
			carry(st, 1, client)
		}
	}
	open := func(name string, to ...*stub) *Conn {
		s, err := client.Dial(stubAddr(1), name, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			turn(to...)
		}
		if !s.Open() {
			t.Fatalf("%s: %v", name, s.Err())
		}
		return s
	}
	first := open("a.test", a)
	keys, sealed := first.assoc, a.assocs.byAddr[stubAddr(2)][0].keys
	second := open("b.test", b) // what is sealed goes there, too
	third := open("a.test", a)
	for i, s := range []*Conn{first, second, third, first} {
		ran = nil
		before, got, want := sealed.Newest(), "", "a.test"
		if s == second {
			want = "b.test"
		}
		client.askText(s, "x", &got)
		for range 3 {
			turn(a, b)
		}
		if got != want || !slices.Equal(ran, []string{want + " x"}) {
			t.Errorf("request %d was answered by %q, %v ran", i, got, ran)
		}
		if toA := sealed.Newest() != before; toA != (s != second) {
			t.Errorf("request %d: sealed for a.test: %v", i, toA)
		}
		if name := s.Identity().certificate().DNSNames; !slices.Equal(name, []string{want}) {
			t.Errorf("request %d: the session is with %v", i, name)
		}
	}
	if first.assoc != keys || third.assoc != keys || second.assoc == keys {
		t.Error("sessions of one name have other keys, or those of two names the same")
	}
}
