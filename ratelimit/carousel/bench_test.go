package carousel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/ratelimit/carousel"
)

// steady is a wheel with n entries that leave and come back at random times.
type steady struct {
	w   *carousel.Wheel[*paced]
	now carousel.Time
	gap [1024]time.Duration // random distances, up to 1 ms
	i   int
}

func newSteady(tb testing.TB, n int) *steady {
	w, err := carousel.New[*paced](carousel.Config{}, 0)
	if err != nil {
		tb.Fatal(err)
	}
	s := &steady{w: w}
	rng := rand.New(rand.NewPCG(11, 12))
	for i := range s.gap {
		s.gap[i] = 1 + time.Duration(rng.Int64N(1_000_000))
	}
	for i := range n {
		w.Insert(carousel.Time(s.gap[i&1023]), &paced{id: i})
	}
	for range 4 * n { // mixes the slab, as use does
		s.turn()
	}
	return s
}

// turn pops the next item, moving the clock to it, and inserts it again.
func (s *steady) turn() bool {
	v, ok := s.w.Pop(s.now)
	if !ok {
		s.now, _ = s.w.Next()
		if v, ok = s.w.Pop(s.now); !ok {
			return false
		}
	}
	s.i++
	s.w.Insert(s.now.Add(s.gap[s.i&1023]), v)
	return true
}

func TestNoAllocations(t *testing.T) {
	for _, n := range []int{1, 1000} {
		s := newSteady(t, n)
		if got := testing.AllocsPerRun(10_000, func() {
			if !s.turn() {
				t.Fatal("nothing at the time of Next")
			}
		}); got != 0 {
			t.Errorf("%d items: %v allocations per Pop and Insert", n, got)
		}
	}
	s := newSteady(t, 1000)
	if got := testing.AllocsPerRun(100, func() {
		s.now = s.now.Add(1000 * time.Second)
		for range 500 { // an owner that lags: the due slots move aside
			s.turn()
		}
	}); got != 0 {
		t.Errorf("with jumps of the clock: %v allocations", got)
	}
}

// One Insert and one Pop, and the Next when nothing is due.
func BenchmarkInsertPop(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
			s := newSteady(b, n)
			b.ReportAllocs()
			for b.Loop() {
				s.turn()
			}
		})
	}
}

// BenchmarkPopNothing is the cost of a round of an event loop when nothing is due.
func BenchmarkPopNothing(b *testing.B) {
	w, err := carousel.New[*paced](carousel.Config{}, 0)
	if err != nil {
		b.Fatal(err)
	}
	w.Insert(1_000_000, nil)
	for b.Loop() {
		if _, ok := w.Pop(1000); ok {
			b.Fatal("early")
		}
	}
}
