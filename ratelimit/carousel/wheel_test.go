package carousel_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/ratelimit/carousel"
)

// newWheel returns a wheel of ints with slots of 512 ns and the default horizon.
func newWheel(t testing.TB, now carousel.Time) *carousel.Wheel[int] {
	t.Helper()
	w, err := carousel.New[int](carousel.Config{}, now)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// drain pops everything that is due at now.
func drain[T any](w *carousel.Wheel[T], now carousel.Time) (got []T) {
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
		{c: carousel.Config{Granularity: 2, Horizon: (carousel.MaxSlots - 2) * 2}, granule: 2,
			horizon: (carousel.MaxSlots - 2) * 2},
		{c: carousel.Config{Granularity: time.Second, Horizon: time.Minute}, granule: 1 << 30,
			horizon: 62 << 30},
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
			t.Errorf("%+v: granularity %v, horizon %v, want %v, %v", c.c, w.Granularity(), w.Horizon(),
				c.granule, c.horizon)
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
	for _, origin := range []carousel.Time{0, 1, 511, -512, -1 << 40, 1<<62 + 17} {
		for d := time.Duration(0); d < 2000; d += 7 {
			w := newWheel(t, origin)
			at := origin.Add(d)
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

func TestOrder(t *testing.T) {
	w := newWheel(t, 0)
	const us = 1000
	times := []carousel.Time{30 * us, 10 * us, 10 * us, 7000 * us, 20 * us, 10 * us, 0, -5 * us}
	for i, at := range times {
		if w.Insert(at, i) {
			t.Errorf("item %d at %d is within the horizon, but was clipped", i, at)
		}
	}
	wantInts(t, "at 0", drain(w, 0), 6, 7)
	wantInts(t, "at 10 us", drain(w, 10*us), []int(nil)...)
	wantInts(t, "a slot later", drain(w, 10*us+512), 1, 2, 5)
	wantInts(t, "a second later", drain(w, 1e9), 4, 0, 3)
	if w.Len() != 0 || w.Clipped() != 0 {
		t.Errorf("Len %d, Clipped %d", w.Len(), w.Clipped())
	}
}

// TestPast: an item that is inserted for the past comes out with those that are due, and not before
// items of the same flow that were inserted earlier.
func TestPast(t *testing.T) {
	w := newWheel(t, 1e6)
	w.Insert(1e6+1000, 1)
	w.Insert(1e6+2000, 2)
	w.Advance(2e6)
	w.Insert(1e6+2000, 3) // its slot still has items
	w.Insert(1e6+5000, 4) // past, an empty slot behind them
	w.Insert(1e6-5000, 5) // before everything: not before the first that waits
	if at, ok := w.Next(); !ok || at > 2e6 {
		t.Errorf("Next says %d, %v, but items are due", at, ok)
	}
	wantInts(t, "due", drain(w, 2e6), 1, 5, 2, 3, 4)
}

func TestHorizon(t *testing.T) {
	w := newWheel(t, 0)
	h := carousel.Time(w.Horizon())
	for i, c := range []struct {
		at   carousel.Time
		clip bool
	}{{h, false}, {h + 512, false}, {h + 513, true}, {math.MaxInt64, true}, {h + 600,
		true}, {h, false}} {
		if got := w.Insert(c.at, i); got != c.clip {
			t.Errorf("item %d at horizon%+d: clipped %v, want %v", i, c.at-h, got, c.clip)
		}
	}
	if w.Clipped() != 3 {
		t.Errorf("%d clips counted, want 3", w.Clipped())
	}
	wantInts(t, "before the horizon", drain(w, h-1))
	wantInts(t, "at the horizon", drain(w, h), 0, 5)
	wantInts(t, "in the last slot", drain(w, h+512), 1, 2, 3, 4)
}

// A wheel that was not told the time measures the horizon from where it was left.
func TestAdvanceBeforeInsert(t *testing.T) {
	w := newWheel(t, 0)
	if !w.Insert(1e9+1000, 1) {
		t.Error("a second ahead: not clipped")
	}
	w.Advance(1e9)
	if w.Insert(1e9+1000, 2) {
		t.Error("a microsecond ahead: clipped")
	}
	wantInts(t, "now", drain(w, 1e9), 1)
	wantInts(t, "later", drain(w, 1e9+1024), 2)
}

func TestClockBack(t *testing.T) {
	const hour = carousel.Time(time.Hour)
	w := newWheel(t, hour)
	w.Insert(hour+1000, 1)
	w.Insert(hour+9000, 2)
	w.Advance(hour + 2000)
	wantInts(t, "an hour back: what was due stays due, the rest waits", drain(w, 0), 1)
	w.Insert(5000, 3)
	w.Insert(2000, 4)
	wantInts(t, "times of the lower clock are past", drain(w, 1000), 3, 4)
	wantInts(t, "the clock stands still", drain(w, 1000))
	wantInts(t, "the clock caught up", drain(w, hour+9000+512), 2)
}

// After a jump of hours over waiting items, the owner reschedules while it drains:
// what it inserts leaves in its slot, as if nothing had waited.
func TestClockForward(t *testing.T) {
	w := newWheel(t, 0)
	for i := range 100 {
		w.Insert(carousel.Time(i)*70_000, i) // up to 7 ms
	}
	now := carousel.Time(5 * time.Hour)
	for i := range 100 {
		v, ok := w.Pop(now)
		if !ok || v != i {
			t.Fatalf("pop %d: got %d, %v", i, v, ok)
		}
		if w.Insert(now.Add(time.Duration(i)*80*time.Microsecond), 100+i) {
			t.Fatalf("item %d clipped", 100+i)
		}
	}
	wantInts(t, "due at once", drain(w, now), 100)
	for i := 101; i < 200; i++ {
		at := now.Add(time.Duration(i-100) * 80 * time.Microsecond)
		wantInts(t, "just before", drain(w, at-1))
		wantInts(t, "in its slot", drain(w, at+511), i)
	}
}

// Items that wait for the owner longer than the wheel is long stay before what is
// inserted then, over several rounds.
func TestOwnerLagsBehind(t *testing.T) {
	w := newWheel(t, 0)
	var want []int
	now := carousel.Time(0)
	for round := range 5 {
		for i := range 3 {
			w.Insert(now.Add(time.Duration(i)*time.Millisecond), round*3+i)
			want = append(want, round*3+i)
		}
		if round > 0 {
			want = append(want, 1000+round-1) // 7 ms later than the first of the three
		}
		now = now.Add(time.Minute)
		w.Advance(now)
		if at, ok := w.Next(); !ok || at > now {
			t.Fatalf("round %d: Next says %d, %v, but items are due", round, at, ok)
		}
		w.Insert(now.Add(7*time.Millisecond), 1000+round)
	}
	wantInts(t, "all that is due", drain(w, now.Add(7*time.Millisecond-1)), want...)
	wantInts(t, "the last", drain(w, now.Add(7*time.Millisecond+512)), 1004)
}

// TestAside: items that the owner left too long move aside only if their slots are needed.
// Behind those in their slots, late items leave in the order of their times; behind
// those aside, in the order in which they came.
func TestAside(t *testing.T) {
	const slot = 512
	last := carousel.Time(newWheel(t, 0).Horizon() + slot) // the last slot seen from slot 0
	for _, c := range []struct {
		name string
		far  carousel.Time // needs the slot of item 0 or not
		want []int
	}{
		{"the last free slot", last, []int{0, 20, 22, 21}},
		{"a needed slot", last + slot, []int{0, 20, 21, 22}},
		{"the horizon", last + 20*slot, []int{0, 20, 21, 22}},
	} {
		w := newWheel(t, 0)
		w.Insert(0, 0)
		w.Insert(20*slot, 20)
		w.Advance(20 * slot)
		if w.Insert(c.far, 99) {
			t.Errorf("%s: clipped", c.name)
		}
		w.Advance(30 * slot)
		w.Insert(28*slot, 21)
		w.Insert(25*slot, 22)
		wantInts(t, c.name, drain(w, 30*slot), c.want...)
		wantInts(t, c.name+": before it", drain(w, c.far-1))
		wantInts(t, c.name+": at it", drain(w, c.far), 99)
	}
}

func TestEndsOfTime(t *testing.T) {
	for _, g := range []time.Duration{2, 512, time.Second} {
		w, err := carousel.New[int](carousel.Config{Granularity: g, Horizon: 10 * g}, math.MinInt64)
		if err != nil {
			t.Fatal(err)
		}
		w.Insert(math.MinInt64, 1)
		w.Insert(math.MaxInt64, 2)
		wantInts(t, "first", drain(w, math.MinInt64), 1)
		w.Advance(math.MaxInt64 - 2*carousel.Time(w.Granularity()))
		wantInts(t, "clipped", drain(w, math.MinInt64), 2)
		w.Insert(math.MaxInt64, 3)
		w.Insert(math.MaxInt64-1, 4)
		if at, ok := w.Next(); !ok || at < 0 {
			t.Errorf("granularity %v: Next says %d, %v", g, at, ok)
		}
		wantInts(t, "last", drain(w, math.MaxInt64), 3, 4)
	}
}
