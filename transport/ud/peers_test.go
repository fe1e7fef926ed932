package ud

import (
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

func peerAt(port, qpn uint32) *peer {
	return &peer{addr: transport.Addr{Port: port}, src: source{qpn: qpn}, qpn: qpn}
}

// TestPeers: the table finds peers both ways, and forgets who lost address or queue pair.
func TestPeers(t *testing.T) {
	var p peers
	p.init(3)
	find := func(port, qpn uint32, want *peer) {
		t.Helper()
		if got := p.to(&transport.Addr{Port: port}); got != want {
			t.Errorf("to port %d: %+v, want %+v", port, got, want)
		}
		if got := p.from(&source{qpn: qpn}); got != want {
			t.Errorf("from queue pair %d: %+v, want %+v", qpn, got, want)
		}
	}
	a, b := peerAt(1, 10), peerAt(2, 20)
	if left := append(p.add(a), p.add(b)...); len(left) != 0 {
		t.Errorf("%d left", len(left))
	}
	find(1, 10, a)
	find(2, 20, b)
	find(3, 30, nil)
	again := peerAt(1, 11) // restarted
	if left := p.add(again); len(left) != 1 || left[0] != a {
		t.Errorf("left: %v", left)
	}
	find(1, 11, again)
	if p.from(&source{qpn: 10}) != nil {
		t.Error("the old queue pair is still known")
	}
	moved := peerAt(4, 20) // takes the address of nobody and the queue pair of b
	if left := p.add(moved); len(left) != 1 || left[0] != b {
		t.Errorf("left: %v", left)
	}
	find(4, 20, moved)
	same := peerAt(4, 20)
	if left := p.add(same); len(left) != 1 || left[0] != moved {
		t.Errorf("left: %v", left)
	}
	p.clock = 5
	find(4, 20, same)
	p.add(peerAt(5, 50))
	if left := p.add(peerAt(6, 60)); len(left) != 1 || left[0] != again {
		t.Errorf("full: left %v, want the one that was silent longest", left)
	}
	if len(p.byAddr) != 3 || len(p.bySrc) != 3 {
		t.Errorf("%d and %d peers", len(p.byAddr), len(p.bySrc))
	}
}

// TestSilentPeerIsAsked: once for each time that packets had no answer for a while.
func TestSilentPeerIsAsked(t *testing.T) {
	var p peers
	p.init(3)
	a := peerAt(1, 10)
	p.add(a)
	asked := 0
	for now := monotime.Time(1); now < monotime.Time(10*silentFor); now = now.Add(silentFor / 10) {
		if at := now; a.sent(&at) {
			asked++
		}
	}
	if asked < 8 || asked > 10 {
		t.Errorf("asked %d times in 10 periods", asked)
	}
	p.from(&a.src)
	unread := monotime.Time(0)
	if late := monotime.Time(20 * silentFor); a.sent(&unread) || unread != 0 || a.sent(&late) {
		t.Error("asked although it had answered, or the clock was read")
	}
}

// TestHandlesAfterClose: no handle is made when the device's domain may be gone.
func TestHandlesAfterClose(t *testing.T) {
	h := handles{made: map[way]*handle{}} // without a domain: making one would panic
	h.close()
	if x, err := h.get(way{lid: 1}); x != nil || !errors.Is(err, transport.ErrClosed) {
		t.Errorf("%v, %v", x, err)
	}
}
