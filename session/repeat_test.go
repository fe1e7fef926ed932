package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// repeater is a rig whose server limits what it answers again, in spans of a millisecond.
func repeater(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.sv.repeatSpan = time.Millisecond
	r.now = 100 * ms
	return r
}

// req hands in packet pkt of a request of size bytes with a try, and returns what was sent.
func (r *rig) req(num uint64, size int, pkt uint32, try uint16) (sent int) {
	h := wire.Header{
		Type: wire.TypeReq, ReqType: 1, MsgSize: uint32(size), ReqNum: num, PktNum: pkt,
		Hold: wire.TryHold(try, 0),
	}
	data := make([]byte, payload(size, r.params.PerPacket, uint32(pkt)))
	before := len(r.s2c)
	r.sv.OnReq(&h, data, r.arrival(), r.sout)
	r.takeServer()
	return len(r.s2c) - before
}

// rfr hands in an RFR for n response packets.
func (r *rig) rfr(num uint64, pkt uint32, try uint16, n uint32) (sent int) {
	h := wire.Header{
		Type: wire.TypeRFR, ReqType: 1, ReqNum: num, PktNum: pkt, MsgSize: n - 1,
		Hold: wire.TryHold(try, 0),
	}
	before := len(r.s2c)
	r.sv.OnRFR(&h, r.arrival(), r.sout)
	r.takeServer()
	return len(r.s2c) - before
}

// TestSamePacketIsAnsweredOnce: a packet that comes again within a span is answered once, of each
// kind that has answers.
func TestSamePacketIsAnsweredOnce(t *testing.T) {
	large := 2*rigParams.PerPacket + 1 // three packets
	for name, c := range map[string]struct {
		prepare func(r *rig)
		repeat  func(r *rig, try uint16) int
	}{
		"response": {
			func(r *rig) { r.req(8, 1, 0, 0); _ = r.respond(0, 1) },
			func(r *rig, try uint16) int { return r.req(8, 1, 0, try) },
		},
		"error": {
			func(r *rig) {
				r.req(8, 1, 0, 0)
				_ = r.sv.RespondError(0, fault(wire.CodeApplication, "no"), r.now, r.sout)
			},
			func(r *rig, try uint16) int { return r.req(8, 1, 0, try) },
		},
		"CR": {
			func(r *rig) { r.req(8, large, 0, 0) },
			func(r *rig, try uint16) int { return r.req(8, large, 0, try) },
		},
		"gap": {
			func(r *rig) { r.req(8, large, 0, 0) },
			func(r *rig, try uint16) int { return r.req(8, large, 2, try) },
		},
		"gap at the start": {
			func(*rig) {},
			func(r *rig, try uint16) int { return r.req(8, large, 1, try) },
		},
		"RFR": {
			func(r *rig) {
				r.req(8, 1, 0, 0)
				_ = r.respond(0, large)
				r.rfr(8, 1, 0, 1)
			},
			func(r *rig, try uint16) int { return r.rfr(8, 1, try, 1) },
		},
		"RFR too early": {
			func(r *rig) { r.req(8, 1, 0, 0); _ = r.respond(0, large) },
			func(r *rig, try uint16) int { return r.rfr(8, 2, try, 1) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := repeater(t)
			c.prepare(r)
			r.takeServer()
			if n := c.repeat(r, 3); n != 1 {
				t.Fatalf("the first repeat draws %d packets", n)
			}
			for range 5 {
				r.now = r.now.Add(time.Millisecond/5 - 1)
				if n := c.repeat(r, 3); n != 0 {
					t.Errorf("the same again draws %d packets", n)
				}
			}
			if r.sst.DropRepeat != 5 {
				t.Errorf("%d were counted", r.sst.DropRepeat)
			}
			if n := c.repeat(r, 4); n != 1 {
				t.Errorf("the next try draws %d packets", n)
			}
			r.now = r.now.Add(time.Millisecond)
			if n := c.repeat(r, 4); n != 1 {
				t.Errorf("the same after a span draws %d packets", n)
			}
		})
	}
}

// TestRepeatsAreBounded: whatever its tries, a client has the packets of a request answered again
// four times in a span, or four windows of them.
func TestRepeatsAreBounded(t *testing.T) {
	r := repeater(t)
	window := rigParams.Credits
	want := repeatTimes * (1 + 12 + window)
	if window < 13 || window > 40 {
		t.Fatalf("%d credits", window)
	}
	for _, num := range []uint64{8, 9} {
		r.req(num, 1, 0, 0)
		numResp := map[uint64]int{8: 12, 9: 40}[num] // one fits a window
		if err := r.respond(uint8(num&7), numResp*rigParams.PerPacket); err != nil {
			t.Fatal(err)
		}
		for pkt := uint32(1); pkt < uint32(numResp); pkt++ {
			if n := r.rfr(num, pkt, 0, 1); n != 1 {
				t.Fatalf("%d packets", n)
			}
		}
	}
	r.s2c = nil
	flood := func() (sent int) {
		for try := range uint16(20 * window) {
			sent += r.req(8+uint64(try&1), 1, 0, try) + r.rfr(8+uint64(try&1), uint32(1+try%11), try, 1)
		}
		return sent
	}
	if n := flood(); n != want {
		t.Errorf("%d packets were sent again, want %d", n, want)
	}
	r.now = r.now.Add(time.Millisecond - 1)
	if n := flood(); n != 0 {
		t.Errorf("%d more in the same span", n)
	}
	r.now = r.now.Add(1)
	if n := flood(); n != want {
		t.Errorf("%d in the next span", n)
	}
	// Words of missing packets count too.
	r.now = r.now.Add(time.Millisecond)
	gaps := 0
	for try := range uint16(20 * window) {
		gaps += r.req(18, 2*rigParams.PerPacket, 1, try)
	}
	if gaps != repeatTimes {
		t.Errorf("%d gaps were told, want %d", gaps, repeatTimes)
	}
	r.now = r.now.Add(time.Millisecond)
	// A packet that was never sent is not a repeat.
	r.req(16, 1, 0, 0)
	if err := r.respond(0, 2*rigParams.PerPacket); err != nil {
		t.Fatal(err)
	}
	if n := r.rfr(16, 1, 0, 1); n != 1 {
		t.Errorf("a new request is not answered: %d packets", n)
	}
}

// TestRFRForMany: an RFR for several packets counts as those of them that were sent before.
func TestRFRForMany(t *testing.T) {
	r := repeater(t)
	r.req(8, 1, 0, 0)
	if err := r.respond(0, 8*rigParams.PerPacket); err != nil {
		t.Fatal(err)
	}
	stride := uint32(r.sv.stride())
	if stride < 3 {
		t.Fatalf("a stride of %d", stride)
	}
	if n := r.rfr(8, 1, 0, 2); n != 2 || r.sst.Retransmits != 0 {
		t.Errorf("%d packets, %d of them again", n, r.sst.Retransmits)
	}
	if n := r.rfr(8, 2, 1, 3); n != 3 || r.sst.Retransmits != 1 {
		t.Errorf("%d packets, %d of them again", n, r.sst.Retransmits)
	}
	if n := r.rfr(8, 1, 2, 3); n != 3 || r.sst.Retransmits != 4 {
		t.Errorf("%d packets, %d of them again", n, r.sst.Retransmits)
	}
	if n := r.rfr(8, 5, 2, 1); n != 1 || r.sst.Retransmits != 4 {
		t.Errorf("%d packets, %d of them again", n, r.sst.Retransmits)
	}
}
