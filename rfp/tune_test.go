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
