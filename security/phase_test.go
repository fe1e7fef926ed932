package security

import (
	"bytes"
	"testing"
)

// carry seals a packet at one side and opens it at the other.
func carry(t *testing.T, from, to *Association) {
	t.Helper()
	out, ok := from.Seal(nil, testPacket(30, 3), nil)
	if !ok {
		t.Fatal("spent")
	}
	if _, err := to.Open(out); err != nil {
		t.Fatal(err)
	}
}

// TestProofAhead: a proof counts if its counter is at most 2^31 ahead of the one expected, as those
// of packets are, wherever the counters are.
func TestProofAhead(t *testing.T) {
	for _, next := range []uint64{0, 1 << 20, 1 << 33} {
		for ahead, want := range map[uint64]bool{0: true, 1 << 31: true, 1<<31 + 1: false} {
			from, to := testPair(t)
			to.window.next, from.counter = next, next+ahead
			if got := to.Check(from.Prove(nil, []byte("seen")), []byte("seen")); got != want {
				t.Errorf("%d ahead of %d: %v", ahead, next, got)
			}
		}
	}
}

// TestOldKeysGo: the keys of the phase before open late packets as long as the window has room for
// one, on either side, and are gone after that: who takes the memory later does not find them.
func TestOldKeysGo(t *testing.T) {
	for _, opener := range []bool{true, false} {
		for more := WindowSize - 2; more <= WindowSize+1; more++ {
			from, to := testPair(t)
			if opener {
				from, to = to, from
			}
			late, _ := from.Seal(nil, testPacket(30, 4), nil)
			if opener {
				to.Update()
				carry(t, to, from)
			} else {
				from.Update()
			}
			for range more {
				carry(t, from, to)
			}
			gone := to.last.aead == nil && to.last.secret == Secret{}
			if want := more >= WindowSize; gone != want || to.Phase() != 1 {
				t.Errorf("opener %v, %d packets later: gone %v", opener, more, gone)
			}
			_, err := to.Open(bytes.Clone(late))
			if want := more < WindowSize; (err == nil) != want || err != nil && err != ErrReplay {
				t.Errorf("opener %v, %d packets later: %v", opener, more, err)
			}
		}
	}
}
