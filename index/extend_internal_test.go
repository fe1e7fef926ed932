package index

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/internal/invariants"
)

// ledger says which of the keys 0 to size-1 are in a map while tasks take turns.
type ledger struct {
	m     *Map
	next  uint64   // the key to append
	maybe []bool   // may be there: a Put has begun, and no Delete has ended since
	sure  []bool   // is there: a Put has ended, and no Delete has begun since
	walks []*walkd // under way

	layered bool // see key
}

// walkd is a walk from a key on. It sees the keys that are there all the time, and may see those
// that are there at some time.
type walkd struct {
	from        uint64
	maybe, sure []bool
}

// numberKey returns the key of 8 bytes for a number.
func numberKey(k uint64) []byte { return binary.BigEndian.AppendUint64(nil, k) }

// key returns the key for a number. If g is layered, four numbers share a slice, and three of them
// have longer keys.
func (g *ledger) key(k uint64) []byte {
	if !g.layered {
		return numberKey(k)
	}
	key := numberKey(k / 4)
	if k%4 > 0 {
		key = append(key, byte(k%4))
	}
	return key
}

// number returns the number of a key.
func (g *ledger) number(key []byte) uint64 {
	k := binary.BigEndian.Uint64(key)
	if !g.layered {
		return k
	}
	if k *= 4; len(key) > 8 {
		k += uint64(key[8])
	}
	return k
}

func newLedger(size int) *ledger {
	return &ledger{m: NewMap(), maybe: make([]bool, size), sure: make([]bool, size)}
}

func (g *ledger) put(k uint64) {
	g.maybe[k] = true
	for _, w := range g.walks {
		w.maybe[k] = true
	}
	_, _, _ = g.m.Put(g.key(k), 1<<(k%64))
	g.sure[k] = true
}

func (g *ledger) remove(k uint64) {
	g.sure[k] = false
	for _, w := range g.walks {
		w.sure[k] = false
	}
	g.m.Delete(g.key(k))
	g.maybe[k] = false
}

func (g *ledger) begin(from uint64) *walkd {
	w := &walkd{from, slices.Clone(g.maybe), slices.Clone(g.sure)}
	g.walks = append(g.walks, w)
	return w
}

func (g *ledger) end(w *walkd) {
	g.walks = slices.DeleteFunc(g.walks, func(o *walkd) bool { return o == w })
}

// scan walks from a key on and says what was wrong.
func (g *ledger) scan(from uint64) (why error) {
	w := g.begin(from)
	var seen []uint64
	key := g.key(from)
	if from%2 == 0 {
		var p Page
		g.m.Fill(&p, key, 1<<20)
		for i := range p.Len() {
			seen = append(seen, g.number(p.Key(i)))
		}
	} else {
		g.m.Scan(key, 1<<20, func(key []byte, _ uint64) bool {
			seen = append(seen, g.number(key))
			return true
		})
	}
	g.end(w)
	for i, k := range seen {
		if k < from || i > 0 && k <= seen[i-1] || !w.maybe[k] {
			return fmt.Errorf("a scan from %d saw %d", from, seen)
		}
	}
	for k := from; k < uint64(len(w.sure)); k++ {
		if _, found := slices.BinarySearch(seen, k); w.sure[k] && !found {
			return fmt.Errorf("a scan from %d did not see %d, but %d", from, k, seen)
		}
	}
	return nil
}

// sum is scan for SumAfter, with 64 keys at most: the values are bits.
func (g *ledger) sum(after uint64) (why error) {
	w := g.begin(after)
	sum, n := g.m.SumAfter(g.key(after), 1<<20)
	g.end(w)
	if bits.OnesCount64(sum) != n {
		return fmt.Errorf("a sum after %d of %d keys: %b", after, n, sum)
	}
	for k := range uint64(len(w.sure)) {
		has := sum>>k&1 != 0
		if has && (k <= after || !w.maybe[k]) || !has && k > after && w.sure[k] {
			return fmt.Errorf("a sum after %d: key %d, %v", after, k, has)
		}
	}
	return nil
}

// get looks a key up, in one of two ways.
func (g *ledger) get(k uint64, batched bool) (why error) {
	w := g.begin(k)
	key := g.key(k)
	_, found := g.m.Get(key)
	if batched {
		var value [1]uint64
		var ok [1]bool
		g.m.GetBatch([][]byte{key}, value[:], ok[:])
		found = ok[0]
	}
	g.end(w)
	if found && !w.maybe[k] || !found && w.sure[k] {
		return fmt.Errorf("a get of %d: %v", k, found)
	}
	return nil
}

// appends plays one seed: two tasks append keys, two change those that are there, the others read.
func appends(seed uint64) (why error) {
	s := &stage{r: rand.New(rand.NewPCG(seed, 5)), back: make(chan struct{})}
	size, begin := uint64(64), s.r.Uint64N(40)
	if seed%4 == 0 { // several groups of children, and two inner nodes
		size, begin = 600, 100+s.r.Uint64N(400)
	}
	g := newLedger(int(size))
	for g.next < begin {
		g.put(g.next)
		g.next++
	}
	near := func(r *rand.Rand) uint64 { return min(g.next-min(g.next, r.Uint64N(40)), size-1) }
	for c := range 6 {
		r := rand.New(rand.NewPCG(seed, uint64(10+c)))
		s.add(func() {
			for i := 0; i < 30 && why == nil; i++ {
				switch k := near(r); {
				case c < 2 && g.next < size:
					g.next++
					g.put(g.next - 1)
				case c < 2:
				case c == 2 && seed%3 > 0:
					if k < g.next && !g.maybe[k] {
						g.put(k)
					}
				case c == 3 && seed%3 > 1:
					if g.sure[k] {
						g.remove(k)
					}
				case c == 4 && size == 64:
					why = g.sum(k)
				case c == 5 && i%2 == 0:
					why = g.get(k, i%4 == 0)
				default:
					why = g.scan(min(k+r.Uint64N(20), size-1))
				}
			}
		})
	}
	if !s.run() {
		return fmt.Errorf("seed %d: no end", seed)
	}
	if why == nil {
		_, why = g.m.Check()
	}
	if why != nil {
		return fmt.Errorf("seed %d: %w", seed, why)
	}
	return nil
}

// TestAppendSchedules plays seeded schedules in which leaves are cut, split and joined while others
// look keys up and walk over them.
func TestAppendSchedules(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("needs a build with the tag invariants, or the race detector")
	}
	n := 3 * *seeds
	if n == 0 {
		n = 600
	}
	for seed := range uint64(n) {
		if err := appends(seed); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAppends: keys in order fill all places of leaves but one, wherever they are in order, and a
// map that was emptied keeps nothing that writers remembered.
func TestAppends(t *testing.T) {
	g := newLedger(64)
	put := func(k uint64) {
		if _, _, err := g.m.Put(numberKey(k), k); err != nil {
			t.Fatal(err)
		}
	}
	const n = 3000
	for _, base := range []uint64{1 << 40, 1 << 20} { // the second run lies below the first one
		for i := range uint64(n) {
			put(base + i)
		}
		s, err := g.m.Check()
		if err != nil || s.Leaves > s.Keys/(width-1)+3 {
			t.Fatalf("%d leaves for %d keys, %v", s.Leaves, s.Keys, err)
		}
	}
	h := g.m.tree.hint.Load()
	if h == nil {
		t.Fatal("no writer remembers its leaf")
	}
	for _, base := range []uint64{1 << 40, 1 << 20} {
		for i := range uint64(n) {
			g.m.Delete(numberKey(base + i))
		}
	}
	for i := range h {
		if l := h[i].leaf.Load(); l != nil && !l.alive() {
			t.Error("a writer remembers a dead leaf")
		}
	}
}
