package ring

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

func TestCapacity(t *testing.T) {
	for want, asked := range map[int][]int{2: {-5, 0, 1, 2}, 4: {3, 4}, 8: {5}, 1024: {1000, 1024}} {
		for _, n := range asked {
			if got := NewMPSC[byte](n).Cap(); got != want {
				t.Errorf("NewMPSC(%d).Cap() = %d, want %d", n, got, want)
			}
		}
	}
}

func TestFullAndEmpty(t *testing.T) {
	for _, capacity := range []int{2, 4, 64} {
		r := NewMPSC[int](capacity)
		for round := range 5 {
			if !r.Empty() || r.Len() != 0 {
				t.Fatalf("round %d: not empty", round)
			}
			if v, ok := r.Pop(); ok || v != 0 {
				t.Fatalf("round %d: popped %d from an empty ring", round, v)
			}
			for i := range capacity {
				if !r.Push(round*100 + i) {
					t.Fatalf("round %d: push %d of %d refused", round, i, capacity)
				}
				if r.Empty() || r.Len() != i+1 {
					t.Fatalf("round %d: Len = %d after %d pushes", round, r.Len(), i+1)
				}
			}
			if r.Push(-1) {
				t.Fatalf("round %d: pushed to a full ring", round)
			}
			for i := range capacity {
				if v, ok := r.Pop(); !ok || v != round*100+i {
					t.Fatalf("round %d: Pop = %d, %v; want %d", round, v, ok, round*100+i)
				}
			}
		}
	}
}

// TestModel compares random calls with a slice, through many rounds of the ring.
func TestModel(t *testing.T) {
	for _, slots := range []int{2, 4, 8} {
		testModel(t, newMPSC[uint64](8, slots))
	}
}

func testModel(t *testing.T, r *MPSC[uint64]) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	var model []uint64
	pushed := uint64(0)
	for i := uint64(1); i < 100_000; i++ {
		if rnd.IntN(2) == 0 {
			ok := r.Push(i)
			if !ok && len(model) < 8 || ok && len(model) >= 8+len(r.slots) {
				t.Fatalf("seed %d: Push = %v with %d values", seed, ok, len(model))
			}
			if ok {
				model = append(model, i)
				pushed++
			}
		} else {
			v, ok := r.Pop()
			if ok != (len(model) > 0) || ok && v != model[0] {
				t.Fatalf("seed %d: Pop = %d, %v; model %v", seed, v, ok, model)
			}
			if ok {
				model = model[1:]
			}
		}
		if r.Len() != len(model) || r.Empty() != (len(model) == 0) {
			t.Fatalf("seed %d: Len %d, Empty %v; model %v", seed, r.Len(), r.Empty(), model)
		}
		if r.Pushed() != pushed {
			t.Fatalf("seed %d: Pushed %d, want %d", seed, r.Pushed(), pushed)
		}
	}
}

type message struct{ producer, number, check int }

// TestProducers checks that with many producers on a tiny ring nothing is lost,
// doubled, torn or reordered within one producer, with an overflow and without.
func TestProducers(t *testing.T) {
	for _, capacity := range []int{4, 8, 1024} {
		testProducers(t, newMPSC[*message](capacity, 4))
	}
}

func testProducers(t *testing.T, r *MPSC[*message]) {
	const producers = 8
	each := 5000
	if testing.Short() {
		each = 500
	}
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for n := range each {
				m := &message{p, n, p*1_000_003 ^ n}
				for !r.Push(m) {
					runtime.Gosched()
				}
			}
		})
	}
	var next [producers]int
	for got := 0; got < producers*each; {
		if r.Empty() {
			runtime.Gosched()
			continue
		}
		if n := r.Len(); n < 1 || n > r.Cap()+len(r.slots) {
			t.Fatalf("Len = %d in a ring of %d", n, r.Cap())
		}
		m, ok := r.Pop()
		if !ok {
			continue // somebody is adding to the overflow
		}
		if m.check != m.producer*1_000_003^m.number {
			t.Fatalf("torn message %+v", *m)
		}
		if m.number != next[m.producer] {
			t.Fatalf("producer %d: got %d, want %d", m.producer, m.number, next[m.producer])
		}
		next[m.producer]++
		got++
	}
	wg.Wait()
	if !r.Empty() || r.Len() != 0 {
		t.Fatal("values left over")
	}
}

// TestTurns checks that values which are pushed by turns, each after the other one's, come out in
// that order, while the consumer takes them.
func TestTurns(t *testing.T) {
	r := newMPSC[uint64](1<<20, 4)
	const producers, each = 4, 5000
	var next uint64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			for range each {
				mu.Lock()
				r.Push(next)
				next++
				mu.Unlock()
			}
		})
	}
	for want := uint64(0); want < producers*each; {
		v, ok := r.Pop()
		if !ok {
			runtime.Gosched()
			continue
		}
		if v != want {
			t.Fatalf("got %d, want %d", v, want)
		}
		want++
		if want%64 == 0 {
			runtime.Gosched() // the overflow grows
		}
	}
	wg.Wait()
}

// TestOverflowWaits: what is in the overflow does not pass a value whose producer has its slot, and
// has not filled it.
func TestOverflowWaits(t *testing.T) {
	r := newMPSC[int](16, 2)
	r.tail.Add(1) // a producer has the first slot
	for v := 2; v <= 3; v++ {
		r.Push(v) // to the second one, and to the overflow
	}
	if v, ok := r.Pop(); ok {
		t.Fatalf("got %d first", v)
	}
	r.slots[0].value = 1
	r.slots[0].seq.Store(1)
	for want := 1; want <= 3; want++ {
		if v, ok := r.Pop(); !ok || v != want {
			t.Errorf("got %d, %v, want %d", v, ok, want)
		}
	}
}

// TestPopKeepsNothing checks that the ring drops its reference to a popped value.
func TestPopKeepsNothing(t *testing.T) {
	r := NewMPSC[*int](2)
	r.Push(new(int))
	r.Pop()
	for i := range r.slots {
		if r.slots[i].value != nil {
			t.Fatalf("slot %d still refers to the value", i)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	r := NewMPSC[[4]uint64](16)
	if n := testing.AllocsPerRun(1000, func() {
		r.Push([4]uint64{1, 2, 3, 4})
		r.Pop()
	}); n != 0 {
		t.Fatalf("%v allocations per push and pop", n)
	}
}

func BenchmarkPushPop(b *testing.B) {
	r := NewMPSC[uint64](1024)
	for i := uint64(0); b.Loop(); i++ {
		r.Push(i)
		r.Pop()
	}
}

func BenchmarkEmpty(b *testing.B) {
	r := NewMPSC[uint64](1024)
	n := 0
	for b.Loop() {
		if r.Empty() {
			n++
		}
	}
}

// BenchmarkHandOver moves values from one goroutine to another.
func BenchmarkHandOver(b *testing.B) {
	r := NewMPSC[uint64](1024)
	done := make(chan struct{})
	n := b.N
	go func() {
		defer close(done)
		for i := 0; i < n; {
			if _, ok := r.Pop(); ok {
				i++
			} else {
				runtime.Gosched()
			}
		}
	}()
	for i := range n {
		for !r.Push(uint64(i)) {
			runtime.Gosched()
		}
	}
	<-done
}
