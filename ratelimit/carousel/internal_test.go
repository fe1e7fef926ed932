package carousel

import (
	"math/rand/v2"
	"testing"
	"time"
)

// check verifies what must hold between calls.
func (w *Wheel[T]) check(t *testing.T, zero func(T) bool) {
	t.Helper()
	used := make([]bool, len(w.slab))
	walk := func(what string, head uint32) (n int, last uint32) {
		last = none
		for i := head; i != none; i = w.slab[i].next {
			if used[i] {
				t.Fatalf("%s: entry %d is in two lists", what, i)
			}
			used[i], last = true, i
			n++
		}
		return n, last
	}
	n, last := walk("due", w.due.head)
	if n > 0 && last != w.due.tail {
		t.Fatalf("due: tail %d, but the last is %d", w.due.tail, last)
	}
	first := int64(never)
	for tick := w.start(); tick <= w.start()+w.mask; tick++ {
		k := uint32(tick & w.mask)
		if !w.nonEmpty.has(k) {
			continue
		}
		first = min(first, tick)
		m, last := walk("slot", w.slots[k].head)
		if m == 0 || last != w.slots[k].tail {
			t.Fatalf("slot %d: %d items, tail %d, last %d", k, m, w.slots[k].tail, last)
		}
		n += m
	}
	if first != w.first || n != w.n {
		t.Fatalf("first %d, want %d; n %d, want %d", w.first, first, w.n, n)
	}
	free, _ := walk("free", w.free)
	if free+n != len(w.slab) {
		t.Fatalf("%d free and %d used of %d entries", free, n, len(w.slab))
	}
	for i := w.free; i != none; i = w.slab[i].next {
		if !zero(w.slab[i].v) {
			t.Fatalf("free entry %d keeps its value", i)
		}
	}
}

// The structure stays sound, and a popped pointer is not kept, through random use.
func TestStructure(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w, err := New[*int](Config{Granularity: 8, Horizon: 200 * 8}, 0)
	if err != nil {
		t.Fatal(err)
	}
	isNil := func(p *int) bool { return p == nil }
	now, most := Time(0), 0
	for range 5000 {
		switch rng.IntN(4) {
		case 0, 1:
			w.Insert(now.Add(time.Duration(rng.Int64N(3000)-200)), new(int))
		case 2:
			now = now.Add(time.Duration(rng.Int64N(2500)))
			w.Advance(now)
		default:
			for range rng.IntN(8) {
				if v, ok := w.Pop(now); ok && v == nil {
					t.Fatal("an item lost its value")
				}
			}
		}
		most = max(most, w.Len())
		w.check(t, isNil)
	}
	if len(w.slab) != most {
		t.Errorf("slab of %d entries for at most %d items", len(w.slab), most)
	}
	if w.Clipped() == 0 {
		t.Error("nothing was clipped: the test misses the horizon")
	}
}

// The bitmap agrees with a set, for one, two and three levels.
func TestBitmap(t *testing.T) {
	for _, n := range []int64{64, 128, 4096, 8192, MaxSlots} {
		rng := rand.New(rand.NewPCG(3, uint64(n)))
		b := newBitmap(n)
		words, above := int(n/64), max(1, int(n/64/64))
		if len(b.bottom) != words || len(b.middle) != above {
			t.Errorf("n %d: %d words, %d above them, want %d, %d",
				n, len(b.bottom), len(b.middle), words, above)
		}
		set := map[uint32]bool{}
		for range 400 {
			i := uint32(rng.Int64N(n))
			switch rng.IntN(8) {
			case 0:
				i = 0
			case 1:
				i = uint32(n - 1)
			}
			if set[i] {
				b.clear(i)
				delete(set, i)
			} else if len(set) < 6 {
				b.set(i)
				set[i] = true
			}
			for _, from := range []uint32{0, i, uint32(rng.Int64N(n)), uint32(n - 1)} {
				want, any := uint32(0), false
				for m := range set {
					if m >= from && (!any || m < want) {
						want, any = m, true
					}
				}
				if got, ok := b.next(from); ok != any || got != want {
					t.Fatalf("n %d, set %v: next(%d) is %d, %v, want %d, %v", n, set, from, got, ok, want, any)
				}
			}
		}
	}
}
