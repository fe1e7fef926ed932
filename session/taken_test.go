package session

import (
	"errors"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestNotTaken: a server says what it has taken, in the middle of requests of all kinds. The client
// ends those that came not at all, those of which a part came only if the session ends, and no
// others. The word of a session with other slots says nothing.
func TestNotTaken(t *testing.T) {
	errNot := errors.New("not taken")
	for _, ends := range []bool{true, false} {
		p := rigParams
		p.Slots, p.Credits = 4, 4
		r := newRig(t, p, Timing{}, 2, msgbuf.Config{})
		r.open(0)
		var ops []Op
		for i, size := range []int{10, 2500, 10, 10, 10} {
			ops = append(ops, r.op(uint32(i+1), size, 10))
			r.start(ops[i])
		}
		for i, pkt := range r.c2s { // one whole, the first packet of the second one, nothing else
			if h := pkt.header(); h.ReqNum == 4 || h.ReqNum == 5 && h.PktNum == 0 {
				r.toServer(r.c2s[i])
			}
		}
		taken := wire.FindTaken(r.sv.AppendTaken(nil, ends))
		want := []uint32{5, 3, 4}
		if ends {
			want = []uint32{5, 2, 3, 4}
		} else {
			r.cl.Drain(r.cout)
			r.takeClient()
		}
		other := wire.FindTaken(wire.AppendNumber(wire.AppendTaken(nil, 1), 0))
		for _, word := range []wire.Taken{other, taken} {
			r.asked = true
			r.cout.Flush()
			r.cl.NotTaken(word, errNot, r.now, r.cout)
			r.takeClient()
		}
		var got []uint32
		for _, ev := range r.failed {
			if got = append(got, ev.Ref); ev.Err != errNot && (ends || ev.Err != ErrDraining) {
				t.Errorf("request %d ended with %v", ev.Ref, ev.Err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("ends %v: requests %v ended, want %v", ends, got, want)
		}
		r.failed = nil
		if !ends { // those that were taken go on
			r.pump(func(uint8) int { return 10 })
			if err := r.respond(0, 10); err != nil {
				t.Fatal(err)
			}
			r.pump(func(uint8) int { return 10 })
			if len(r.ended) != 2 {
				t.Errorf("%d of 2 requests ended well", len(r.ended))
			}
		}
		r.closeClient(ErrClosed)
		r.failed = nil
		for _, op := range ops {
			giveBack(op)
		}
		r.noLeak()
	}
}

// TestNoRoomForTaken: a session whose packets have no room for so many slots says nothing.
func TestNoRoomForTaken(t *testing.T) {
	p := rigParams
	p.Slots = MaxSlots
	r := newRig(t, p, Timing{}, 2, msgbuf.Config{})
	r.open(0)
	if b := r.sv.AppendTaken(nil, true); len(b) != 0 {
		t.Errorf("%d bytes for packets of %d", len(b), p.PerPacket)
	}
	r.noLeak()
}
