package rfp

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// TestControlBlock holds the check of a control block to its value, which both sides compute, and
// a reader to whole blocks: of another life's, cut at every byte, it takes none.
func TestControlBlock(t *testing.T) {
	one := control{epoch: 1 << 40, nonce: 3 << 20, first: 5, geometry: Geometry{8, 256, 1024}}
	two := control{epoch: 7, nonce: 9, first: 11, geometry: Geometry{4, 128, 512}}
	h := one.epoch*0x9E3779B97F4A7C15 ^ one.nonce*0xBF58476D1CE4E5B9 ^ 5
	if got, want := one.check(), h*31+8*961+256*961+1024; got != want {
		t.Errorf("check is %#x, want %#x", got, want)
	}
	a, b := onesided.Memory(controlBytes), onesided.Memory(controlBytes)
	one.put(a)
	two.put(b)
	mem := onesided.Memory(controlBytes)
	for n := 0; n <= controlBytes; n++ {
		copy(mem, a)
		copy(mem[:n], b)
		got, ok := readControl(mem)
		switch {
		case !ok:
		case got == one && n <= 8, got == two && string(mem) == string(b):
		default:
			t.Errorf("cut at %d: %+v", n, got)
		}
	}
	if got, ok := readControl(mem); !ok || got != two {
		t.Errorf("a whole block: %+v, %v", got, ok)
	}
}

// TestLateUnsent ends a call whose deadline passes while its message is still open, in the Poll
// that finds it late.
func TestLateUnsent(t *testing.T) {
	w := newWorld(Config{Batch: 4, Wait: 1000}, 1)
	var got error
	err := w.c.Send(&Call{Kind: 1, Body: []byte{0}, Deadline: 5,
		Done: func(_ uint64, _ []byte, err error) { got = err }})
	if err != nil {
		t.Fatal(err)
	}
	if n := w.c.Poll(4); n != 0 || got != nil {
		t.Fatalf("%d calls ended before the deadline: %v", n, got)
	}
	if n := w.c.Poll(5); n != 1 || !errors.Is(got, ErrDeadline) || w.c.Stats().Late != 1 {
		t.Errorf("%d calls ended: %v", n, got)
	}
}

// TestTolerance holds that all calls may be late.
func TestTolerance(t *testing.T) {
	c := Config{Geometry: small, Tolerance: 1}
	if err := c.fill(); err != nil {
		t.Error(err)
	}
}

// TestShares holds the shares of late calls from which a Sizer changes the size: above its
// tolerance, and below a tenth of it.
func TestShares(t *testing.T) {
	for _, c := range []struct{ late, want int }{
		{0, 3}, {4, 3}, {6, 2}, {50, 2}, {51, 1}, {1000, 1},
	} {
		s := NewSizer(8, 100, 0.05)
		for range sizerCalls {
			s.Add(1, 100)
		}
		for i := range sizerCalls {
			took := time.Duration(100)
			if i < c.late {
				took++
			}
			s.Add(1, took)
		}
		if s.Size() != c.want {
			t.Errorf("%d of 1000 calls late: %d calls in a message, want %d", c.late, s.Size(), c.want)
		}
	}
}

// TestLargestRequest holds that a request which fills its message is taken.
func TestLargestRequest(t *testing.T) {
	w := newWorld(Config{Mode: Reply}, 1)
	body := make([]byte, w.c.cfg.Request-entryBytes)
	if err := w.c.Send(&Call{Kind: 1, Body: body, Done: func(uint64, []byte, error) {}}); err != nil {
		t.Fatal(err)
	}
	w.c.Poll(1)
	w.x.take()
	if n := w.s.Poll(1); n != 1 || w.ran[0] != 1 {
		t.Errorf("%d messages, %+v", n, w.s.Stats())
	}
}
