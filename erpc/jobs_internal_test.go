package erpc

import (
	"testing"

	"pgregory.net/rapid"
)

// TestJobTable compares the table with a list: a job that is taken has a generation of its own,
// and only the one responder of that generation claims it, however the job was used before.
func TestJobTable(t *testing.T) {
	type taken struct {
		j       *job
		gen     uint32
		claimed bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var table jobTable
		var live, over []*taken
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case len(live) == 0 || op == 0:
				j, gen := table.take()
				if j.req != nil || j.resp != nil || j.fn != nil || j.fault.Code != 0 ||
					j.handle != (ReqHandle{}) {
					t.Fatalf("a new job is not clean: %+v", j)
				}
				for _, o := range append(live, over...) {
					if o.j == j && o.gen == gen {
						t.Fatalf("generation %d of a job comes twice", gen)
					}
				}
				j.req, j.resp, j.fn, j.fault.Code = &MsgBuffer{}, &MsgBuffer{}, func(ReqHandle) {}, 1
				j.handle.reqNum = 1
				live = append(live, &taken{j: j, gen: gen})
			case op == 1:
				x := live[rapid.IntRange(0, len(live)-1).Draw(t, "claim")]
				if x.j.claim(x.gen) == x.claimed {
					t.Fatalf("claimed: %v, and claim says the same again", x.claimed)
				}
				x.claimed = true
			case op == 2 && len(over) > 0: // a late response
				x := over[rapid.IntRange(0, len(over)-1).Draw(t, "late")]
				if x.j.current(x.gen) || x.j.claim(x.gen) {
					t.Fatalf("generation %d of a job is still there", x.gen)
				}
			case op == 3:
				at := rapid.IntRange(0, len(live)-1).Draw(t, "put")
				x := live[at]
				x.j.claim(x.gen) // jobs come back when they were answered
				table.put(x.j)
				live = append(live[:at], live[at+1:]...)
				over = append(over, x)
			}
			if table.running != len(live) {
				t.Fatalf("%d jobs run, want %d", table.running, len(live))
			}
			for _, x := range live {
				if x.j.current(x.gen) == x.claimed {
					t.Fatalf("claimed: %v, current: %v", x.claimed, x.claimed)
				}
			}
		}
	})
}

// TestJobGenerationWraps: the generation after the last one is the first.
func TestJobGenerationWraps(t *testing.T) {
	var table jobTable
	j, _ := table.take()
	j.state.Store((1<<32 - 1) << 1)
	if !j.claim(1<<32 - 1) {
		t.Fatal("the last generation cannot be claimed")
	}
	table.put(j)
	again, gen := table.take()
	if again != j || gen != 0 || !j.current(gen) || j.current(1<<32-1) || !j.claim(gen) ||
		j.claim(gen) {
		t.Errorf("generation %d after the last one", gen)
	}
}

// TestHandleBits: a handle holds a slot, a request type and a generation of any value.
func TestHandleBits(t *testing.T) {
	for _, c := range []struct {
		slot, typ uint8
		gen       uint32
	}{{0, 0, 0}, {127, 254, 1<<32 - 1}, {127, 0, 0}, {0, 254, 0}, {0, 0, 1<<32 - 1}} {
		h := ReqHandle{bits: uint64(c.slot)<<slotShift | uint64(c.typ)}
		h.bits |= uint64(c.gen) << genShift
		if h.slot() != c.slot || h.Type() != c.typ || h.gen() != c.gen {
			t.Errorf("%+v comes back as %d, %d, %d", c, h.slot(), h.Type(), h.gen())
		}
	}
}
