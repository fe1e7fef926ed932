package simlab

import (
	"context"
	"errors"
	"testing"
	"time"
)

func config(m Model, trip time.Duration) Config {
	return Config{Model: m, RoundTrip: trip, Replicas: 3, Keys: 1000, Requests: 200, Seed: 1}
}

func run(t *testing.T, c Config) *Point {
	t.Helper()
	p, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func within(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if got < want*(1-part) || got > want*(1+part) {
		t.Errorf("%s: %.3f, want %.3f within %.0f %%", what, got, want, 100*part)
	}
}

// TestCurve: PUT / plain RPC is the arithmetic's, for short round trips and long ones, and a plain
// RPC takes what is asked for.
func TestCurve(t *testing.T) {
	for _, m := range []Model{Paper, Here} {
		for _, trip := range Trips {
			p := run(t, config(m, trip))
			t.Logf("%s, %v: %+v", m.Name, trip, *p)
			within(t, "round trip, us", p.Plain.P50.Seconds()*1e6, trip.Seconds()*1e6, 0.01)
			within(t, "PUT / RPC", p.Ratio, 2+float64(m.Raft())/float64(trip), 0.1)
			if p.Put.P99 > 2*p.Put.P50 || p.Get.P50 > p.Put.P50 {
				t.Errorf("%s, %v: %+v", m.Name, trip, *p)
			}
		}
	}
}

// TestPaper: the paper's service times give its PUT of 5.5 us.
func TestPaper(t *testing.T) {
	p := run(t, config(Paper, 2300))
	within(t, "PUT, us", p.Put.P50.Seconds()*1e6, 5.5, 0.05)
}

// TestWorkCounts: each of Raft's steps is on the way of a PUT, and only those.
func TestWorkCounts(t *testing.T) {
	base := run(t, config(Paper, 10*us)).Put.P50
	for name, set := range map[string]func(m *Model){
		"propose": func(m *Model) { m.Propose += us }, "append": func(m *Model) { m.Append += us },
		"ack": func(m *Model) { m.Ack += us }, "answer": func(m *Model) { m.Answer += us },
	} {
		m := Paper
		set(&m)
		if got := run(t, config(m, 10*us)).Put.P50 - base; got != us {
			t.Errorf("a microsecond more for %s makes a PUT longer by %v", name, got)
		}
	}
	m := Paper
	m.Rest += us
	if got := run(t, config(m, 10*us)).Put.P50 - base; got != 0 {
		t.Errorf("what may follow the packets makes a PUT longer by %v", got)
	}
}

// TestSameSeed: a seed decides all.
func TestSameSeed(t *testing.T) {
	c := config(Here, 5*us)
	if a, b := run(t, c), run(t, c); *a != *b {
		t.Errorf("%+v, then %+v", *a, *b)
	}
}

func TestBadConfig(t *testing.T) {
	for name, set := range map[string]func(c *Config){
		"too short": func(c *Config) { c.RoundTrip = 1699 },
		"too long":  func(c *Config) { c.RoundTrip = time.Millisecond + 1 },
		"replicas":  func(c *Config) { c.Replicas = 10 },
		"none":      func(c *Config) { c.Replicas = 0 },
		"keys":      func(c *Config) { c.Keys = 0 },
		"requests":  func(c *Config) { c.Requests = 0 },
		"negative":  func(c *Config) { c.Model.Ack = -1 },
		"huge":      func(c *Config) { c.Model.Rest = time.Second },
	} {
		c := config(Paper, 1700)
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
		set(&c)
		if _, err := Run(t.Context(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, config(Paper, 5*us)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
