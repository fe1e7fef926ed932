package simlab

import (
	"context"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/dcqcn"
	"github.com/userspace-rpc/erpc/cc/swift"
	"github.com/userspace-rpc/erpc/cc/timely"
	"github.com/userspace-rpc/erpc/erpc"
)

// How fairness is looked at.
const (
	fairFlows   = 20
	fairWindow  = 10 * time.Millisecond
	fairWindows = 10
	lateAfter   = 20 * time.Millisecond // the second of two flows starts so long after the first
	lateWindow  = 1 * time.Millisecond
	lateCredits = 256
	lateWatched = 150 * time.Millisecond
	lateWithin  = 0.2
)

// FairnessResult says how large flows share the link of one victim. Times are
// seconds of virtual time.
type FairnessResult struct {
	CC string `json:"cc"`
	// Flows that all start at once: Jain's index of what each received, window by
	// window after the warm-up.
	Flows   int     `json:"flows"`
	Window  float64 `json:"window_s"`
	Jain    float64 `json:"jain_mean"`
	JainMin float64 `json:"jain_min"`
	// Two flows, of which the second starts Late seconds after the first, at a
	// sixteenth of the link's rate; FirstShare is its part of the bandwidth in the
	// first LateWindow. Settled is how long after that, in windows of LateWindow, their rates are
	// within 20 % of the larger one for good; nil if they never are in the time Watched.
	Late       float64  `json:"late_s"`
	FirstShare float64  `json:"late_first_share"`
	LateWindow float64  `json:"late_window_s"`
	Watched    float64  `json:"watched_s"`
	Settled    *float64 `json:"settled_s"`
}

// Fairness measures how flows with congestion control share a bottleneck. Of the
// configuration, Degrees, CC, Background and Duration do not matter.
func Fairness(ctx context.Context, c IncastConfig, algorithm erpc.CCAlgorithm,
	progress Progress) (FairnessResult, error) {
	c.Background = false
	r := FairnessResult{CC: algorithm.String(), Flows: fairFlows, Window: fairWindow.Seconds(),
		Late: lateAfter.Seconds(), LateWindow: lateWindow.Seconds(), Watched: lateWatched.Seconds()}
	err := c.together(ctx, &r, algorithm, progress)
	if err == nil {
		err = c.late(ctx, &r, algorithm, progress)
	}
	return r, err
}

// together measures flows that start at once.
func (c *IncastConfig) together(ctx context.Context, r *FairnessResult, algorithm erpc.CCAlgorithm,
	progress Progress) error {
	x, err := c.build(ctx, r.Flows, algorithm, progress)
	if x != nil {
		defer x.close()
	}
	if err != nil {
		return err
	}
	x.what = fmt.Sprintf("fairness of %d flows, cc %s", r.Flows, r.CC)
	if err = x.beginAll(); err != nil {
		return err
	}
	if err = x.run(c.Warmup, 0, 0.2); err != nil {
		return err
	}
	r.JainMin = 1
	for i := range fairWindows {
		shares, err := x.window(fairWindow, 0.2+0.8*float64(i)/fairWindows)
		if err != nil {
			return err
		}
		j := jain(shares)
		r.Jain += j / fairWindows
		r.JainMin = min(r.JainMin, j)
	}
	return nil
}

// window runs for d and returns the packets that each flow has brought. With each
// packet of data goes one the other way.
func (x *incast) window(d time.Duration, part float64) ([]float64, error) {
	shares := make([]float64, len(x.clients))
	for i, t := range x.clients {
		shares[i] = -float64(t.ep.Stats().RxPackets)
	}
	err := x.run(d, part, part)
	for i, t := range x.clients {
		shares[i] += float64(t.ep.Stats().RxPackets)
	}
	return shares, err
}

// late measures how soon a second flow gets its share that is held to a small part of
// the link when the first one has all of it. The sessions have credits enough for their
// rates, not their credits, to share the link.
func (c IncastConfig) late(ctx context.Context, r *FairnessResult, algorithm erpc.CCAlgorithm,
	progress Progress) error {
	c.Credits = max(c.Credits, lateCredits)
	made := 0
	c.control = unequal(algorithm, &made)
	x, err := c.build(ctx, 2, algorithm, progress)
	if x != nil {
		defer x.close()
	}
	if err != nil {
		return err
	}
	x.what = "fairness of a late flow, cc " + r.CC
	x.flows[0].begin()
	if err = x.run(lateAfter, 0, 0.1); err != nil {
		return err
	}
	made = 1 // the next controller is the second flow's, whether or not the first one needed any
	x.flows[1].begin()
	settled, even := 0.0, false // until when they were apart; whether they are together now
	for at := time.Duration(0); at < lateWatched; {
		shares, err := x.window(lateWindow, 0.1+0.9*float64(at)/float64(lateWatched))
		if err != nil {
			return err
		}
		if at == 0 {
			r.FirstShare = shares[1] / (shares[0] + shares[1])
		}
		at += lateWindow
		if even = within(shares[0], shares[1]); !even {
			settled = at.Seconds()
		}
	}
	if even {
		r.Settled = &settled
	}
	return nil
}

// unequal returns an algorithm whose second controller begins at a sixteenth of the
// link's rate; nil for no congestion control.
func unequal(algorithm erpc.CCAlgorithm, made *int) *cc.Algorithm {
	var a cc.Algorithm
	switch algorithm {
	case erpc.CCTimely:
		cfg, _ := timely.Config{}.Fill() // the defaults are right
		a = cc.Algorithm{Bypass: cfg.Bypass(0),
			New: func(link float64) cc.Controller { return timely.New(&cfg, link) }}
	case erpc.CCDCQCN:
		cfg, _ := dcqcn.Config{}.Fill()
		a = cc.Algorithm{Bypass: dcqcn.Bypass,
			New: func(link float64) cc.Controller { return dcqcn.New(&cfg, link) }}
	case erpc.CCSwift:
		cfg, _ := swift.Config{}.Fill()
		a = cc.Algorithm{Bypass: cfg.Target,
			New: func(link float64) cc.Controller { return swift.New(&cfg, link) }}
	default:
		return nil
	}
	make := a.New
	a.New = func(link float64) cc.Controller {
		c := make(link)
		if *made++; *made == 2 {
			for range 4 {
				c.OnTimeout(0) // halves the rate
			}
		}
		return c
	}
	return &a
}

// within reports whether two rates differ by at most lateWithin of the larger.
func within(a, b float64) bool { return max(a, b)-min(a, b) <= lateWithin*max(a, b) }
