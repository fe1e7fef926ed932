package index

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/internal/invariants"
)

// amid is a ledger with a function that is called at points of whoever is under way. It is not
// called at points of its own.
type amid struct {
	*ledger
	r     *rand.Rand
	why   error
	calls int
}

// Kinds of maps.
const (
	inOrder  = iota // even numbers, put in order, and all odd ones free
	inNone          // some numbers
	inLayers        // some numbers, three of four with keys in further layers
	maps
)

// newAmid returns a map of several parents.
func newAmid(seed uint64, kind int) *amid {
	size := uint64(4000)
	if kind == inLayers {
		size *= 2
	}
	a := &amid{ledger: newLedger(int(size)), r: rand.New(rand.NewPCG(seed, 7))}
	a.layered = kind == inLayers
	for k := uint64(0); k < size; k += 2 {
		if kind == inOrder {
			a.put(k)
		} else {
			a.put(a.r.Uint64N(size))
		}
	}
	return a
}

// at has fn called at each point that does, from now on.
func (a *amid) at(does func(point int) bool, fn func() error) (end func()) {
	inside := false
	hook := func(point int) {
		if inside || a.why != nil || !does(point) {
			return
		}
		inside = true
		a.calls++
		a.why = fn()
		inside = false
	}
	scheduler.Store(&hook)
	return func() { scheduler.Store(nil) }
}

// near returns a key at most so far below k, or as far above it.
func (a *amid) near(k, far uint64) uint64 {
	return min(k-min(k, far)+a.r.Uint64N(2*far), uint64(len(a.sure)-1))
}

// write puts a key, or removes it if it is there.
func (a *amid) write(k uint64) {
	if a.sure[k] {
		a.remove(k)
	} else if !a.maybe[k] {
		a.put(k)
	}
}

// read looks at the keys from k on, or up to k, in one of all ways.
func (a *amid) read(k uint64) error {
	switch a.r.IntN(6) {
	case 0:
		return a.get(k, false)
	case 1:
		return a.get(k, true)
	case 2:
		return a.count(k)
	case 3:
		return a.down(k)
	default:
		return a.scan(k)
	}
}

// count adds the values of all keys behind one and looks at their number.
func (a *amid) count(after uint64) error {
	w := a.begin(after)
	_, n := a.m.SumAfter(a.key(after), 1<<20)
	a.end(w)
	least, most := 0, 0
	for k := after + 1; k < uint64(len(w.sure)); k++ {
		if w.sure[k] {
			least++
		}
		if w.maybe[k] {
			most++
		}
	}
	if n < least || n > most {
		return fmt.Errorf("a sum after %d of %d keys, want %d to %d", after, n, least, most)
	}
	return nil
}

// down goes through the keys up to one, a few leaves.
func (a *amid) down(to uint64) error {
	w := a.begin(to)
	next, n := to, 0
	for key := range a.m.Descend(a.key(to)) {
		k := a.number(key)
		for ; next > k && !w.sure[next]; next-- {
		}
		if next != k || !w.maybe[k] {
			a.end(w)
			return fmt.Errorf("down from %d: %d, want %d", to, k, next)
		}
		if n++; n == 200 {
			break
		}
		next = k - 1
	}
	a.end(w)
	for ; n < 200 && next < uint64(len(w.sure)); next-- { // behind the lowest key
		if w.sure[next] {
			return fmt.Errorf("down from %d: no %d", to, next)
		}
	}
	return nil
}

// TestReadsAmidWrites: between any two steps of a writer, readers see all other keys.
func TestReadsAmidWrites(t *testing.T) {
	everyAmid(t, func(a *amid, k uint64) {
		end := a.at(func(point int) bool { return point != pointRead }, func() error {
			return a.read(a.near(k, 80))
		})
		a.write(a.near(k, 30))
		end()
	})
}

// TestWritesAmidReads: what writers do between any two steps of a reader hides no other key from
// it.
func TestWritesAmidReads(t *testing.T) {
	everyAmid(t, func(a *amid, k uint64) {
		end := a.at(func(point int) bool { return point == pointRead && a.r.IntN(2) == 0 }, func() error {
			a.write(a.near(k, 30))
			return nil
		})
		why := a.read(a.near(k, 80))
		if end(); a.why == nil {
			a.why = why
		}
	})
}

// TestWalkToCutLeaf: a walk comes to a leaf for a slice. Before it looks, or before it goes on, the
// leaf is cut below the slice. Then a key comes between the two parts, or the leaf is replaced.
func TestWalkToCutLeaf(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs a build with the tag invariants, or the race detector")
	}
	reads := []func(*amid, uint64) error{(*amid).scan, (*amid).count, (*amid).down}
	for i := range 4 * uint64(len(reads)) { // an even slice for a page, an odd one for a scan
		for nth := 1; nth <= 3; nth++ {
			a := &amid{ledger: newLedger(300)}
			a.ascending()
			step := 0
			end := a.at(func(int) bool { step++; return step == nth }, func() error {
				a.cutFirst(i%4 < 2)
				return nil
			})
			why := reads[i/4](a, lastEven+6+i)
			end()
			if s, err := a.m.Check(); why != nil || err != nil || s.Leaves != 2 || a.calls != 1 {
				t.Errorf("way %d.%d: %v; %d leaves, %v; %d calls", i, nth, why, s.Leaves, err, a.calls)
			}
		}
	}
}

// lastEven is the last number that ascending puts.
const lastEven = 2 * (width - 2)

// ascending puts even numbers until a leaf has one place left.
func (a *amid) ascending() {
	for k := uint64(0); k <= lastEven; k += 2 {
		a.put(k)
	}
}

// cutFirst cuts the leaf that ascending made, and uses its last place. If again is set, it has the
// leaf replaced too.
func (a *amid) cutFirst(again bool) {
	a.put(lastEven + 4)
	a.put(lastEven + 30)
	a.put(lastEven + 2)
	if !again {
		return
	}
	for k := uint64(0); k <= lastEven; k += 4 {
		a.remove(k)
	}
	a.put(1)
}

// everyAmid calls fn in maps of all kinds, for key after key.
func everyAmid(t *testing.T, fn func(a *amid, k uint64)) {
	if !invariants.Enabled {
		t.Skip("needs a build with the tag invariants, or the race detector")
	}
	for seed := range uint64(2 * maps) {
		a := newAmid(seed, int(seed%maps))
		for k := uint64(0); k < uint64(len(a.sure)) && a.why == nil; k += 61 {
			fn(a, k)
		}
		if a.why == nil {
			_, a.why = a.m.Check()
		}
		if a.why != nil || a.calls == 0 {
			t.Fatalf("seed %d: %v; %d calls", seed, a.why, a.calls)
		}
	}
}
