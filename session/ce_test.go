package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestCongestionEcho: each answer echoes the mark of the packet that it answers, and
// the client's event reports it.
func TestCongestionEcho(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	op := r.op(1, 2000, 2000)
	if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
		t.Fatal(err)
	}
	r.takeClient()
	marks := []bool{true, false, true} // of client packets 0, 1, 2
	for k := range marks {
		p := r.c2s[k]
		h := p.header()
		switch h.Type {
		case wire.TypeReq:
			r.sv.OnReq(&h, p.raw[wire.HeaderSize:], &Arrival{CE: marks[k]}, r.sout)
			if ev := r.takeServer(); ev.Kind == EventRequest {
				if err := r.respond(ev.Slot, 2000); err != nil {
					t.Fatal(err)
				}
			}
		default:
			r.sv.OnRFR(&h, &Arrival{CE: marks[k]}, r.sout)
			r.takeServer()
		}
		if h := r.s2c[k].header(); (h.Flags&wire.FlagCE != 0) != marks[k] {
			t.Errorf("answer %d: flags %b, packet was marked: %v", k, h.Flags, marks[k])
		}
		if ev := r.toClient(r.s2c[k]); ev.Kind == 0 {
			t.Errorf("event %d: %+v", k, ev)
		}
	}
	giveBack(op)
	r.noLeak()
}

// TestQuietMarked: a packet that met congestion is answered though the client wants no answer.
func TestQuietMarked(t *testing.T) {
	for _, marked := range []bool{false, true} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		op := r.op(1, 5000, 10)
		if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
			t.Fatal(err)
		}
		r.takeClient()
		p := r.c2s[0]
		h := p.header()
		if h.Flags != wire.FlagQuiet {
			t.Fatalf("flags %b of the first packet of many", h.Flags)
		}
		r.sv.OnReq(&h, p.raw[wire.HeaderSize:], &Arrival{CE: marked}, r.sout)
		if r.takeServer(); (len(r.s2c) == 1) != marked {
			t.Fatalf("marked %v: %d answers", marked, len(r.s2c))
		}
		if marked {
			if h := r.s2c[0].header(); h.Type != wire.TypeCR || h.Flags != wire.FlagCE {
				t.Errorf("%v, flags %b", h.Type, h.Flags)
			}
			r.toClient(r.s2c[0])
		}
		r.closeClient(ErrClosed)
		giveBack(op)
		r.noLeak()
	}
}
