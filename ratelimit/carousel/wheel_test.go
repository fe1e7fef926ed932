package carousel_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/ratelimit/carousel"
)

// newWheel returns a wheel of ints with slots of 512 ns and the default horizon.
func newWheel(t testing.TB, now int64) *carousel.Wheel[int] {
	t.Helper()
	w, err := carousel.New[int](carousel.Config{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// drain pops everything that is due at now.
func drain[T any](w *carousel.Wheel[T], now int64) (got []T) {
	for v, ok := w.Pop(now); ok; v, ok = w.Pop(now) {
		got = append(got, v)
	}
	return got
}

func wantInts(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	const ns, us, ms = time.Nanosecond, time.Microsecond, time.Millisecond
	for _, c := range []struct {
		c                carousel.Config
		granule, horizon time.Duration
		field            string // of the error
	}{
		{c: carousel.Config{}, granule: 512, horizon: (16384 - 2) * 512},
		{c: carousel.Config{Granularity: 512, Horizon: 62 * 512}, granule: 512, horizon: 62 * 512},
		{c: carousel.Config{Granularity: 512, Horizon: 62*512 + 1}, granule: 512, horizon: 126 * 512},
		{c: carousel.Config{Granularity: 513, Horizon: 1}, granule: 1024, horizon: 62 * 1024},
		{c: carousel.Config{Granularity: 2, Horizon: (carousel.MaxSlots - 2) * 2}, granule: 2, horizon: (carousel.MaxSlots - 2) * 2},
		{c: carousel.Config{Granularity: time.Second, Horizon: time.Minute}, granule: 1 << 30, horizon: 62 << 30},
		{c: carousel.Config{Granularity: 1}, field: "Granularity"},
		{c: carousel.Config{Granularity: -us}, field: "Granularity"},
		{c: carousel.Config{Granularity: time.Second + 1}, field: "Granularity"},
		{c: carousel.Config{Horizon: -ms}, field: "Horizon"},
		{c: carousel.Config{Granularity: 2, Horizon: (carousel.MaxSlots-2)*2 + 1}, field: "Horizon"},
		{c: carousel.Config{Granularity: 2 * ns, Horizon: math.MaxInt64}, field: "Horizon"},
		{c: carousel.Config{Granularity: time.Second, Horizon: math.MaxInt64}, field: "Horizon"},
	} {
		w, err := carousel.New[int](c.c, 0)
		if c.field != "" {
			var bad *carousel.ConfigError
			if !errors.As(err, &bad) || bad.Field != c.field || w != nil {
				t.Errorf("%+v: got %v, %v, want an error of %s", c.c, w, err, c.field)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.c, err)
			continue
		}
		if w.Granularity() != c.granule || w.Horizon() != c.horizon {
			t.Errorf("%+v: granularity %v, horizon %v, want %v, %v", c.c, w.Granularity(), w.Horizon(), c.granule, c.horizon)
		}
	}
}

func TestEmpty(t *testing.T) {
	w := newWheel(t, 0)
	if _, ok := w.Pop(math.MaxInt64); ok {
		t.Error("an empty wheel gave an item")
	}
	if _, ok := w.Next(); ok || w.Len() != 0 || w.Clipped() != 0 {
		t.Errorf("an empty wheel: Next %v, Len %d, Clipped %d", ok, w.Len(), w.Clipped())
	}
}

// An item leaves when the first slot at or after its time begins: never early, less
// than a slot late.
func TestSlotBounds(t *testing.T) {
	for _, origin := range []int64{0, 1, 511, -512, -1 << 40, 1<<62 + 17} {
		for d := int64(0); d < 2000; d += 7 {
			w := newWheel(t, origin)
			at := origin + d
			w.Insert(at, 1)
			next, ok := w.Next()
			if !ok || next < at || next >= at+512 {
				t.Fatalf("origin %d, at %d: Next says %d, %v", origin, at, next, ok)
			}
			if next > origin {
				wantInts(t, "before Next", drain(w, next-1))
			}
			wantInts(t, "at Next", drain(w, next), 1)
		}
	}
}
