package simindex

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// paperRun is the paper's experiment with so many loops and workers.
func paperRun(t *testing.T, loops, workers, clients, outstanding int, scans float64) *Result {
	t.Helper()
	r, err := Run(Config{Model: Paper, Seed: 1, Keys: 10000, Loops: loops, Workers: workers,
		Clients: clients, Outstanding: outstanding, Scans: scans, Warmup: time.Millisecond,
		Time: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func within(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	t.Logf("%s: %.3g, the paper %.3g", what, got, want)
	if got < want*(1-part) || got > want*(1+part) {
		t.Errorf("%s: %.3g, want %.3g within %.0f %%", what, got, want, 100*part)
	}
}

// TestPaper: the paper's service times give its figures within 20 %.
func TestPaper(t *testing.T) {
	low := paperRun(t, 14, 2, 1, 1, 0)
	within(t, "median at low load, ns", float64(low.Get.Quantile(.5)), 2700, .2)
	w := paperRun(t, 14, 2, 64, 2, 0.01)
	within(t, "GET/s", w.Rate, 14.3e6, .2)
	within(t, "99th percentile with workers, ns", float64(w.Get.Quantile(.99)), 12000, .2)
	d := paperRun(t, 16, 0, 64, 2, 0.01)
	within(t, "99th percentile without, ns", float64(d.Get.Quantile(.99)), 26000, .2)
	if w.Busy <= 0.5 || w.Busy >= 1 || w.Scan.Count == 0 || d.Busy != 0 {
		t.Errorf("workers are busy for %.2f of the time, %d scans", w.Busy, w.Scan.Count)
	}
}

// TestSameSeed: a seed decides all, and another one something else.
func TestSameSeed(t *testing.T) {
	c := Config{Model: Here, Keys: 100, Loops: 2, Workers: 1, Clients: 4, Outstanding: 2, Scans: 0.1,
		Warmup: time.Millisecond, Time: time.Millisecond}
	var got [3]Result
	for i, seed := range []uint64{1, 1, 2} {
		c.Seed = seed
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		got[i] = *r
	}
	if got[0] != got[1] || got[0] == got[2] {
		t.Errorf("%d, %d and %d GETs", got[0].GETs, got[1].GETs, got[2].GETs)
	}
}

// TestBadConfig: the error names the bad field.
func TestBadConfig(t *testing.T) {
	for field, bad := range map[string]func(*Config){
		"Keys":        func(c *Config) { c.Keys = 0 },
		"Loops":       func(c *Config) { c.Loops = 0 },
		"Workers":     func(c *Config) { c.Workers = -1 },
		"Clients":     func(c *Config) { c.Clients = 0 },
		"Outstanding": func(c *Config) { c.Outstanding = 0 },
		"Scans":       func(c *Config) { c.Scans = math.NaN() },
		"Warmup":      func(c *Config) { c.Warmup = 0 },
		"Time":        func(c *Config) { c.Time = -1 },
	} {
		c := Config{Model: Here, Keys: 1, Loops: 1, Clients: 1, Outstanding: 1, Warmup: 1, Time: 1}
		bad(&c)
		want := ErrConfig.Error() + ": " + field + " is "
		if _, err := Run(c); !errors.Is(err, ErrConfig) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s...", err, want)
		}
	}
}
