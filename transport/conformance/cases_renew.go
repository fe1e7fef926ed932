package conformance

import (
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// testRenew: after Renew packets arrive, from another address if the transport has one, and answers
// to there come back. It is the same after many times, and the descriptors to wait on stay.
func testRenew(r *rig) {
	to, local, fds := r.b.LocalAddr(), r.a.LocalAddr(), r.a.WaitFDs()
	first := r.asks(to)
	if err := r.a.Renew(to); err != nil {
		if err != transport.ErrUnsupported {
			r.Fatalf("Renew: %v", err)
		}
		if again := r.asks(to); again != first {
			r.Errorf("packets come from %v, and before from %v", again, first)
		}
		return
	}
	if from := r.asks(to); from == first {
		r.Errorf("packets go on to come from %v", first)
	}
	for range 20 {
		if err := r.a.Renew(to); err != nil {
			r.Fatalf("Renew: %v", err)
		}
		r.asks(to)
	}
	if again := r.a.WaitFDs(); !slices.Equal(again, fds) {
		r.Errorf("WaitFDs changed from %v to %v", fds, again)
	}
	if again := r.a.LocalAddr(); again != local {
		r.Errorf("LocalAddr changed from %v to %v", local, again)
	}
	if err := r.a.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	if err := r.a.Renew(to); err != transport.ErrClosed {
		r.Errorf("Renew after Close: %v", err)
	}
}

// asks sends a packet from a to b, and an answer back, and returns where it came from.
func (r *rig) asks(to transport.Addr) (from transport.Addr) {
	r.offer(r.a, []transport.TxItem{{Dst: to, Head: []byte("whoever is there")}})
	from = r.next(r.b)
	r.offer(r.b, []transport.TxItem{{Dst: from, Head: []byte("it is me")}})
	if back := r.next(r.a); back != to {
		r.Errorf("an answer came from %v, not from %v", back, to)
	}
	return from
}

// next waits for a packet, and returns where it came from.
func (r *rig) next(t transport.Transport) transport.Addr {
	for limit := r.deadline(); ; {
		if n := r.poll(t, r.rx[:1]); n > 0 {
			return r.rx[0].From
		}
		if time.Now().After(limit) {
			r.Fatalf("no packet came")
		}
		r.pause(t, r.o.patience)
	}
}
