package erpc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestOneAssociation: sessions that are opened together, and later ones, share the keys of one.
func TestOneAssociation(t *testing.T) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{PSK: testPSK})
	var all []*erpc.Session
	for range 20 {
		s, err := p.client.CreateSessionTo(p.send.addr)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	for _, s := range all {
		p.until(func() bool { return s.Connected() })
	}
	p.connect()
	for name, r := range map[string]*erpc.Rpc{"client": p.client, "server": p.server} {
		if n, _ := r.Associations(); n != 1 {
			t.Errorf("%s: %d associations", name, n)
		}
	}
	p.close()
}

// TestAlteredOpening: whichever byte of the opening is changed once, the session opens with what
// was offered, by a repetition, or not at all: never with less. Checksums are made right again.
func TestAlteredOpening(t *testing.T) {
	both := sectest.NewCA("test").Config("server.test", "spiffe://test/all")
	both.ServerName = "server.test"
	for _, op := range []wire.Op{wire.OpConnect, wire.OpChallenge, wire.OpAccept, wire.OpCrypto} {
		for at := wire.HeaderSize; at < wire.HeaderSize+wire.ConnectSize+80; at++ {
			t.Run(fmt.Sprintf("%v/%d", op, at), func(t *testing.T) { // which frees its endpoints
				alterOpening(t, erpc.Config{PSK: testPSK}, op, at)
				if at%3 == 0 || !testing.Short() {
					alterOpening(t, erpc.Config{TLS: both}, op, at)
				}
			})
		}
	}
}

func alterOpening(t *testing.T, cfg erpc.Config, op wire.Op, at int) {
	cfg.Slots, cfg.Credits = 8, 16
	cfg.Timing.ConnectTimeout = 300 * time.Millisecond
	p := newErrPairOn(t, newMemNet(), cfg)
	p.tick = 50_000
	done := 0
	alter := func(pkt []byte, _ transport.Addr) {
		mgmt := pkt[0] == byte(wire.TypeMgmt)|wire.Version<<4 && wire.Op(pkt[1]) == op
		if len(pkt) <= at || !mgmt || done == 2 {
			return
		}
		token := wire.OpenMgmt(pkt)
		pkt[at] ^= 1 << (at % 8)
		wire.SealMgmt(pkt, token)
		done++
	}
	p.cend.tap, p.send.tap = alter, alter
	s, err := p.client.CreateSessionTo(p.send.addr)
	if err != nil {
		t.Fatal(err)
	}
	p.until(func() bool { return s.Connected() || s.Err() != nil })
	if got := s.Params(); s.Connected() && got != p.sess.Params() {
		t.Errorf("%v changed at %d: %+v", op, at, got)
	}
	if s.Connected() && (s.State() == nil || p.sess.State() == nil) {
		t.Errorf("%v changed at %d: a session without security", op, at)
	}
	p.close()
}

// TestSealedGroup: a client has sessions with all loops of a server's address, by keys for each,
// which change; packets that come to another loop than their own are handed over as they are. None
// is ever tried with the wrong keys.
func TestSealedGroup(t *testing.T) {
	cfg := erpc.Config{PSK: testPSK, KeyUpdate: time.Millisecond}
	cfg.Timing.Heartbeat, cfg.Timing.FailureTimeout = time.Millisecond, time.Second
	g := newLoopRig(t, 3, 2, cfg)
	g.dial(12)
	g.traffic(20)
	places := 0
	g.steer(func(chosen int) int { places++; return (chosen + places) % 3 })
	g.tick = 20_000
	g.traffic(20)
	g.steer(nil)
	g.traffic(20)
	if len(g.failed) > 0 {
		t.Errorf("%d requests failed: %s", len(g.failed), brief(g.sum()))
	}
	for _, s := range g.all {
		is(t, "a session", s.Err(), nil)
	}
	for i, c := range g.clients {
		if n, _ := c.Associations(); n != 3 || c.Forged() != 0 || c.Counters().KeyUpdates < 3 {
			t.Errorf("client %d: %d associations, %d packets not opened, %d updates",
				i, n, c.Forged(), c.Counters().KeyUpdates)
		}
	}
	g.once()
	g.close()
}
