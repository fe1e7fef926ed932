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
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := NewMPSC[uint64](8)
	var model []uint64
	for i := uint64(1); i < 100_000; i++ {
		if rnd.IntN(2) == 0 {
			ok := r.Push(i)
			if ok != (len(model) < 8) {
				t.Fatalf("seed %d: Push = %v with %d values", seed, ok, len(model))
			}
			if ok {
				model = append(model, i)
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
	}
}

// TestProducers checks that with many producers on a tiny ring nothing is lost,
// doubled, torn or reordered within one producer.
func TestProducers(t *testing.T) {
	type message struct{ producer, number, check int }
	const producers = 8
	each := 5000
	if testing.Short() {
		each = 500
	}
	r := NewMPSC[*message](4)
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
		if n := r.Len(); n < 1 || n > r.Cap() {
			t.Fatalf("Len = %d in a ring of %d", n, r.Cap())
		}
		m, ok := r.Pop()
		if !ok {
			t.Fatal("Empty said no, Pop found nothing")
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
