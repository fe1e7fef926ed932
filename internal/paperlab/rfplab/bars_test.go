package rfplab

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// line returns a line of a curve.
func (c *Curve) line(t *testing.T, name string) Line {
	t.Helper()
	for _, l := range c.Lines {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("%s: no line %q", c.Title, name)
	return Line{}
}

// at returns the height of a line at x, between its points too. Behind the last one it stays.
func (l *Line) at(t *testing.T, x float64) float64 {
	t.Helper()
	for i, p := range l.Points {
		switch {
		case p[0] == x:
			return p[1]
		case p[0] > x && i > 0:
			q := l.Points[i-1]
			return q[1] + (p[1]-q[1])*(x-q[0])/(p[0]-q[0])
		}
	}
	if len(l.Points) == 0 || x < l.Points[0][0] {
		t.Fatalf("%s has nothing at %v", l.Name, x)
	}
	return l.Points[len(l.Points)-1][1]
}

// TestCurveBars holds curves to a quarter of every point that the papers name. Those of values and
// designs have their points in TestFigures and TestDesigns.
func TestCurveBars(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 10 s: not with -short")
	}
	for name, lines := range map[string]map[string]string{ // the papers' lines, and the model's
		"sizes": {"RFP: in-bound READs": "in-bound READs",
			"RFP: out-bound WRITEs": "out-bound WRITEs, each waited for"},
		"batches": {"RF-RPC: fetch": "fetch"},
		"latency": {"RFP: Jakiro": "Jakiro", "RFP: ServerReply": "reply, one at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Curves(t.Context(), 1, name, func(string, float64) {})
			if err != nil || c.Cut {
				t.Fatal(err)
			}
			for paper, ours := range lines {
				got := c.line(t, ours)
				for _, p := range c.line(t, paper).Points {
					h := got.at(t, p[0])
					what := fmt.Sprintf("%s at %v", ours, p[0])
					t.Logf("%s: %.2f, paper %.2f", what, h, p[1])
					if h < .75*p[1] || h > 1.25*p[1] {
						t.Errorf("%s: %.2f, paper %.2f", what, h, p[1])
					}
				}
			}
		})
	}
}

// TestHybridBar holds clients that choose their mode by process time, after 1000 calls, to 0.95 of
// the better of both modes at every process time, and to 1.1 of the client time of replies where
// handlers are slow: between the points of TestFigures.
func TestHybridBar(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 10 s: not with -short")
	}
	for p := 1250 * time.Nanosecond; p <= 20*time.Microsecond; p += 2500 * time.Nanosecond {
		var errs error
		got := point(func(r Run) Result {
			r.Calls, r.Warm = 2000, 1000
			res, err := Simulate(r)
			errs = errors.Join(errs, err)
			return res
		}, 3, p)
		if errs != nil {
			t.Fatal(errs)
		}
		best := max(got.Fetch, got.Reply)
		t.Logf("%v: hybrid %.3f of the better mode, client time %.2f of reply's", p, got.Hybrid/best,
			float64(got.HybridCPU)/float64(got.ReplyCPU))
		if got.Hybrid < .95*best {
			t.Errorf("%v: hybrid has %.3f of the better mode", p, got.Hybrid/best)
		}
		if p > 8*time.Microsecond && float64(got.HybridCPU) > 1.1*float64(got.ReplyCPU) {
			t.Errorf("%v: client time %v, reply's %v", p, got.HybridCPU, got.ReplyCPU)
		}
	}
}
