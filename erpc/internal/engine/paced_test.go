package engine

import (
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/wire"
)

// wear has keys count so many forged packets that others are to be made.
func wear(t *testing.T, keys *security.Association) {
	t.Helper()
	at := reflect.ValueOf(keys).Elem().FieldByName("forged").Addr().UnsafePointer()
	for n := uint64(1); !keys.Worn(); n *= 2 {
		*(*uint64)(at) = n
	}
}

// TestWornKeys: a server whose keys were tried by many forged packets tells the client so, sealed,
// and once in renewEvery. Other keys are made each time, and the session goes on.
func TestWornKeys(t *testing.T) {
	p, s, served := newSealedPair(t)
	wear(t, served.assoc.keys)
	p.turn(0, time.Millisecond)
	const seconds = 10
	told := 0
	for range seconds * 100 {
		p.server.pass(10 * time.Millisecond)
		for _, pkt := range p.server.end.sent {
			if wire.IsSealed(pkt.data) {
				told++
			}
		}
		p.server.end.sent = nil
		served.assoc.watch.Heard(p.server.now)
	}
	if told < seconds-1 || told > 2*seconds {
		t.Errorf("told %d times in %d s", told, seconds)
	}
	for range 20 {
		p.turn(0, renewEvery/10)
	}
	if n := len(p.server.assocs.byAddr[stubAddr(2)]); n < 2 || s.Err() != nil {
		t.Errorf("%d associations, %v", n, s.Err())
	}
}

// TestForgedRefusals: somebody who reads the path refuses each attempt to open a session whose keys
// have just been made. He ends those; others that wait for the same keys begin anew once, and
// then go on with what they have.
func TestForgedRefusals(t *testing.T) {
	const dials = 40
	p := &pendingRig{server: newStub(t, setup{PSK: testPSK})}
	p.dial(t, setup{PSK: testPSK})
	st := p.clients[0]
	for range dials - 1 {
		st.dialTo(1)
	}
	nonces := map[uint64]bool{}
	p.said = func(pkt []byte) {
		if wire.IsSealed(pkt) || wire.Op(pkt[1]) != wire.OpCrypto {
			return
		}
		nonce := binary.LittleEndian.Uint64(pkt[wire.HeaderSize:])
		nonces[nonce] = true
		r := wire.Refuse{Nonce: nonce, Code: wire.CodeDenied}
		st.receive(1, wire.OpRefuse, wire.NoSession, 0, wire.RefuseSize, r.Put)
	}
	for range 2000 {
		p.turn(0, 50*time.Microsecond)
	}
	if n := st.stats.SessionsOpened; len(nonces) > 2 || n < dials-2 {
		t.Errorf("%d handshakes, %d sessions of %d", len(nonces), n, dials)
	}
}
