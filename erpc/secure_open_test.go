package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
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
	for _, op := range []wire.Op{wire.OpConnect, wire.OpChallenge, wire.OpAccept, wire.OpCrypto} {
		for at := wire.HeaderSize; at < wire.HeaderSize+wire.ConnectSize+80; at++ {
			alterOpening(t, op, at)
		}
	}
}

func alterOpening(t *testing.T, op wire.Op, at int) {
	p := newErrPairOn(t, newMemNet(), erpc.Config{
		PSK: testPSK, Slots: 8, Credits: 16,
		Timing: erpc.Timing{ConnectTimeout: 300 * time.Millisecond},
	})
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
	if got := s.Params(); s.Connected() && (!got.Sealed || got.Slots != 8 || got.Credits != 16 ||
		got.PerPacket < memMTU-wire.HeaderSize-20 || !got.Bundles) {
		t.Errorf("%v changed at %d: %+v", op, at, got)
	}
	p.close()
}
