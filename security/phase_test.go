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
