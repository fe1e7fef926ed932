package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// packetsOf cuts fuzz input into packets: one byte for the length, which packet of the
// queue to change, and what to write over it.
func packetsOf(in []byte, each func(p []byte)) {
	for len(in) > 1 {
		n := max(1, min(int(in[0]), len(in)-1))
		each(in[1 : 1+n])
		in = in[1+n:]
	}
}

// mutate makes a packet that passes parser and token check more often than not: the
// fuzzed bytes go over the fields that a session looks at.
func mutate(base wire.Header, session, token uint32, in []byte) dgram {
	field := func(i int) uint64 {
		if i < len(in) {
			return uint64(in[i])
		}
		return 0
	}
	base.PktNum += uint32(field(0)) | uint32(field(8)&15)<<16
	base.ReqNum += field(1) & 31
	base.Flags = wire.Flags(field(2) & 15)
	base.MsgSize = uint32(field(3)*100 + field(4))
	base.Hold = uint16(field(5)) << 8
	base.ReqType = uint8(field(6))
	base.Session = session
	payload := min(int(field(7))*8, int(base.MsgSize))
	switch base.Type {
	case wire.TypeCR:
		payload = 0
		if base.Flags&wire.FlagGap != 0 && field(7)&1 != 0 { // a hole
			payload, base.MsgSize = 4, 4
		}
	case wire.TypeRFR:
		payload = 0
	case wire.TypeErr:
		payload = int(base.MsgSize)
	case wire.TypeWait, wire.TypePast, wire.TypeCancel, wire.TypeAck:
		payload, base.MsgSize = 0, 0
	}
	raw := make([]byte, wire.HeaderSize+payload)
	if payload > 1 {
		raw[wire.HeaderSize], raw[wire.HeaderSize+1] = byte(field(8)), 1
		if base.Type == wire.TypeCR {
			wire.AppendHole(raw[:wire.HeaderSize], uint32(field(0)), 1+uint32(field(3)))
		}
	}
	base.Put(raw, token)
	return dgram{raw: raw}
}

// fuzzParams are those of a session of either version.
func fuzzParams(in []byte) Params {
	p := rigParams
	p.Version = wire.Version - uint8(len(in)&1)
	return p
}

func FuzzClient(f *testing.F) {
	f.Add([]byte{9, 0, 8, 0, 0, 10, 0, 1, 2, 0})
	f.Add([]byte{9, 2, 8, 2, 0, 10, 0, 1, 2, 5, 9, 0, 9, 1, 0, 10, 0, 1, 2, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newRig(t, fuzzParams(in), Timing{}, 4, msgbuf.Config{})
		r.open(0)
		ops := map[uint32]Op{}
		for ref := uint32(1); ref <= 4; ref++ {
			ops[ref] = r.op(ref, int(ref-1)*1500, int(ref)*1000)
			if err := r.cl.Start(ops[ref], 0, r.now, r.cout); err != nil {
				t.Fatal(err)
			}
		}
		r.takeClient()
		end := func(ev Event) {
			if ended(ev.Kind) {
				op, ok := ops[ev.Ref]
				if !ok {
					t.Fatalf("request %d ended twice", ev.Ref)
				}
				giveBack(op)
				delete(ops, ev.Ref)
			}
		}
		packetsOf(in, func(b []byte) {
			h := wire.Header{Type: wire.TypeResp, Version: r.params.Version}
			if len(b) > 9 {
				h.Type = [...]wire.Type{wire.TypeResp, wire.TypeCR, wire.TypeErr, wire.TypeWait,
					wire.TypePast, wire.TypeResp, wire.TypeCR, wire.TypeResp}[b[9]&7]
				if b[9]&64 != 0 {
					r.cl.LowerCut(wire.CutSizes[1+b[9]>>7])
				}
			}
			end(r.toClient(mutate(h, clientSession, clientToken, b)))
			r.now += ms
			r.cl.Scan(r.now, r.cout)
			r.takeClient()
		})
		for ref, op := range ops {
			if !r.cancel(ref, errCancelled) {
				t.Fatalf("request %d is neither ended nor here", ref)
			}
			giveBack(op)
			delete(ops, ref)
		}
		r.takeClient()
		works(t, r)
		r.noLeak()
	})
}

// works runs an honest exchange.
func works(t *testing.T, r *rig) {
	t.Helper()
	r.c2s, r.s2c, r.ended = nil, nil, nil
	op := r.op(99, 2500, 2500)
	if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
		t.Fatal(err)
	}
	r.takeClient()
	r.pump(func(uint8) int { return 2500 })
	if len(r.ended) != 1 || r.ended[0].Kind != EventDone {
		t.Fatalf("an honest exchange ended with %+v", r.ended)
	}
	giveBack(op)
}

func FuzzServer(f *testing.F) {
	f.Add([]byte{10, 0, 8, 0, 0, 10, 0, 1, 2, 0, 0})
	f.Add([]byte{10, 0, 8, 0, 25, 0, 0, 1, 125, 0, 2, 10, 1, 8, 0, 25, 0, 0, 1, 125, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newRig(t, fuzzParams(in), Timing{}, 4, msgbuf.Config{Limit: 1 << 20})
		r.transport(len(in) > 0 && in[0]&1 != 0)
		r.refuse[7] = wire.CodeNoHandler
		packetsOf(in, func(b []byte) {
			h := wire.Header{Type: wire.TypeReq, Version: r.params.Version}
			if len(b) > 9 {
				h.Type = [...]wire.Type{wire.TypeReq, wire.TypeRFR, wire.TypeCancel,
					wire.TypeAck}[b[9]&3]
				if b[9]&8 != 0 {
					_ = r.sv.Wait(b[9]>>4&7, r.now, r.sout)
				}
				r.now += ms
				r.sv.Repeat(r.now, r.sout)
			}
			ev := r.toServer(mutate(h, serverSession, serverToken, b))
			if ev.Kind != EventRequest {
				return
			}
			if r.sv.Running() < 1 || r.sv.Running() > r.params.Slots {
				t.Fatalf("%d handlers run", r.sv.Running())
			}
			switch b[len(b)-1] & 6 {
			case 0: // never answers
			case 2:
				if err := r.sv.RespondError(ev.Slot, fault(wire.CodeApplication, "x"), r.now,
					r.sout); err != nil {
					t.Fatal(err)
				}
				r.takeServer()
			default:
				if err := r.respond(ev.Slot, 100*int(b[0])); err != nil {
					t.Fatal(err)
				}
			}
		})
		for i := range r.sv.slots { // handlers that still run end
			if r.sv.slots[i].state == stateHandling {
				if err := r.respond(uint8(i), 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		if r.sv.Running() != 0 {
			t.Fatalf("%d handlers run", r.sv.Running())
		}
		// A client whose numbers are beyond those that were used: it still works.
		r.open(0)
		for i := range r.cl.slots {
			r.cl.slots[i].reqNum += 1 << 17
		}
		works(t, r)
		r.noLeak()
	})
}
