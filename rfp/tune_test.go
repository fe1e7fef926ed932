package rfp

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// plain is a cluster by formulas: READs of up to 256 bytes cost the same, fetching pays up to a
// process time of 7 us, and a READ that finds nothing costs 2 %.
func plain() *Machine {
	return &Machine{
		Reads: func(bytes int) (float64, error) { return min(11e6, 3.2e9/float64(bytes)), nil },
		Calls: func(mode Mode, p time.Duration) (float64, error) {
			if mode == Reply {
				return 2e6, nil
			}
			return min(5.5e6, 16e6/(1+p.Seconds()*1e6)), nil
		},
		IOPS: func(r, f int) (float64, error) {
			return min(11e6, 3.2e9/float64(f)) * (1 - .02*math.Abs(float64(r-3))), nil
		},
		RoundTrip: 1600 * time.Nanosecond,
	}
}

// TestTune holds the choice to what the formulas say.
func TestTune(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		f     int
	}{
		{[]int{64, 64, 64}, 256}, {[]int{64, 64, 400}, 256}, {[]int{64, 300, 300}, 320},
		{[]int{1 << 20}, 256},
	} {
		got, err := Tune(plain(), c.sizes)
		if err != nil {
			t.Fatal(err)
		}
		if got.R != 3 || got.F != c.f || got.SwitchTime != 6500*time.Nanosecond || got.Most != 5 ||
			got.Low != 256 || got.High != 512 || len(got.Table) != 5*5 {
			t.Errorf("%v: R %d, F %d, switch %v, %d, %d to %d", c.sizes, got.R, got.F, got.SwitchTime,
				got.Most, got.Low, got.High)
		}
		var b strings.Builder
		if err := got.Print(&b); err != nil || strings.Count(b.String(), "\n") != len(got.Table)+2 ||
			strings.Count(b.String(), "chosen") != 1 {
			t.Errorf("%v\n%s", err, b.String())
		}
	}
}

func TestTuneRefuses(t *testing.T) {
	failed := errors.New("no")
	for name, mend := range map[string]func(*Machine){
		"no round trip": func(m *Machine) { m.RoundTrip = 0 },
		"reads":         func(m *Machine) { m.Reads = func(int) (float64, error) { return 0, nil } },
		"calls": func(m *Machine) {
			m.Calls = func(Mode, time.Duration) (float64, error) { return math.NaN(), nil }
		},
		"iops": func(m *Machine) { m.IOPS = func(int, int) (float64, error) { return -1, nil } },
	} {
		m := plain()
		mend(m)
		if _, err := Tune(m, []int{64}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", name, err)
		}
	}
	for _, sizes := range [][]int{nil, {1}, {1 << 24}} {
		if _, err := Tune(plain(), sizes); !errors.Is(err, ErrConfig) {
			t.Errorf("%v: %v, want ErrConfig", sizes, err)
		}
	}
	m := plain()
	m.IOPS = func(int, int) (float64, error) { return 0, failed }
	if _, err := Tune(m, []int{64}); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// TestTuneMost holds the largest R: the READs that fit into the process time at which fetching
// stops to pay, the last one in part; one at least, and MaxR at most.
func TestTuneMost(t *testing.T) {
	const pays = 6500 * time.Nanosecond // of plain
	for _, c := range []struct {
		trip time.Duration
		max  int
	}{
		{pays, 1}, {pays + 1, 1}, {pays - 1, 2}, {pays / 5, 5}, {pays/5 - 1, 6}, {pays/5 + 1, 5},
		{time.Second, 1}, {7, 929}, {6, MaxR}, {1, MaxR},
	} {
		m := plain()
		m.RoundTrip = c.trip
		m.IOPS = func(int, int) (float64, error) { return 1e6, nil }
		got, err := Tune(m, []int{64})
		if err != nil || got.SwitchTime != pays || got.Most != c.max {
			t.Errorf("a READ of %v: R up to %d (%v), want %d", c.trip, got.Most, err, c.max)
		}
	}
}

// TestTuneSwitch holds the process time from which fetching gains too little: the first one below a
// gain of 10 %, none if it never is, and 0 if it always is.
func TestTuneSwitch(t *testing.T) {
	const reply = 2e6
	gain := float64(tuneGain) // a variable: the product is rounded as in Tune
	for name, c := range map[string]struct {
		fetch func(p time.Duration) float64
		want  time.Duration
		max   int
	}{
		"just":  {func(time.Duration) float64 { return gain * reply }, tuneSpan, 13},
		"never": {func(time.Duration) float64 { return gain*reply - 1 }, 0, 1},
		"to 2 us": {func(p time.Duration) float64 {
			if p < 2*time.Microsecond {
				return gain * reply
			}
			return reply
		}, 2 * time.Microsecond, 2},
	} {
		m := plain()
		m.Calls = func(mode Mode, p time.Duration) (float64, error) {
			if p >= tuneSpan { // a measurement that can change nothing
				t.Errorf("%s: calls of %v are measured", name, p)
			}
			if mode == Reply {
				return reply, nil
			}
			return c.fetch(p), nil
		}
		if got, err := Tune(m, []int{64}); err != nil || got.SwitchTime != c.want ||
			got.Most != c.max {
			t.Errorf("%s: replies from %v, R up to %d (%v), want %v and %d", name, got.SwitchTime,
				got.Most, err, c.want, c.max)
		}
	}
}

// TestTuneTies holds that of equal candidates the one with the least F and the largest R is chosen,
// and the ends of the sizes that are taken.
func TestTuneTies(t *testing.T) {
	m := plain()
	m.IOPS = func(int, int) (float64, error) { return 1e6, nil }
	got, err := Tune(m, []int{Overhead, 64})
	if err != nil || got.R != got.Most || got.F != got.Low {
		t.Errorf("R %d of %d, F %d of %d (%v)", got.R, got.Most, got.F, got.Low, err)
	}
	// A response of just F bytes counts as a whole, one of a byte more and the largest as a half.
	got, err = Tune(m, []int{320, 321, MaxBody, Overhead})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got.Table {
		want := map[int]float64{256: 2.5 / 4, 320: 3. / 4}[r.F]
		if r.F > 320 {
			want = 3.5 / 4
		}
		if r.T != want*1e6 {
			t.Errorf("F %d: T is %v, want %v", r.F, r.T, want*1e6)
		}
	}
	if _, err := Tune(m, []int{MaxBody + 1}); !errors.Is(err, ErrConfig) {
		t.Errorf("a response beyond the largest: %v", err)
	}
	if _, err := Tune(m, []int{Overhead - 1}); !errors.Is(err, ErrConfig) {
		t.Errorf("a response below the least: %v", err)
	}
}

// TestTuneFlat holds the range of F for READs that are just flat, or just bound by bandwidth: 0.9
// of the most counts.
func TestTuneFlat(t *testing.T) {
	flat := float64(tuneFlat)
	for name, c := range map[string]struct {
		at256, at1024 float64 // READs per second
		low, high     int
	}{
		"just flat": {flat * 6e6, 2e6, 256, 512}, "not flat": {flat*6e6 - 1, 2e6, 128, 512},
		// READs of 512 bytes move 0.9 of what those of 1024 do, or a little less.
		"just bound": {6e6, 5e6 * 512 / flat / 1024, 256, 512},
		"not bound":  {6e6, 5e6*512/flat/1024 + 1, 256, 1024},
	} {
		m := plain()
		m.Reads = func(n int) (float64, error) {
			switch {
			case n < 256:
				return 6e6, nil
			case n == 256:
				return c.at256, nil
			case n == 512:
				return 5e6, nil
			}
			return c.at1024 * 1024 / float64(n), nil
		}
		got, err := Tune(m, []int{64})
		if err != nil || got.Low != c.low || got.High != c.high {
			t.Errorf("%s: F from %d to %d (%v), want %d to %d", name, got.Low, got.High, err, c.low,
				c.high)
		}
	}
	m := plain()
	m.Reads = func(int) (float64, error) { return 1e6, nil }
	if got, err := Tune(m, []int{64}); err != nil || got.Low != tuneLarge || got.High != tuneLarge {
		t.Errorf("READs of all sizes cost the same: F from %d to %d (%v), want %d", got.Low, got.High,
			err, tuneLarge)
	}
}

// TestTunePrint holds the text to its units.
func TestTunePrint(t *testing.T) {
	tuning := Tuning{R: 2, F: 256, SwitchTime: 6500 * time.Nanosecond, Most: 2, Low: 256, High: 320,
		Table: []TuneRow{{1, 256, 5.5e6, 4.125e6}, {2, 256, 11.26e6, 10e6}, {2, 320, 1e6, 1500}}}
	want := []string{
		"R  F    I(R,F)      T",
		"1  256  5.500 M/s   4.125 M/s",
		"2  256  11.260 M/s  10.000 M/s  chosen",
		"2  320  1.000 M/s   0.002 M/s",
		"Replies from a process time of 6.5µs on; R up to 2, F from 256 to 320 bytes.",
	}
	var b strings.Builder
	if err := tuning.Print(&b); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || strings.TrimRight(got[i], " ") != want[i] {
			t.Fatalf("line %d differs:\n%s", i+1, b.String())
		}
	}
}
