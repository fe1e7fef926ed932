package failures

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/cmd/erpc/watch"
	"github.com/userspace-rpc/erpc/debug"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics"
)

// watcher looks at a client before a fault and at the end, as its operator would: by metrics, by
// erpc top, by erpc trace.
type watcher struct {
	of    erpc.Watched // nil: it cannot be watched
	meter *watch.Meter
	then  map[string]float64
	signs []string
	top   string
	trace string
}

// recorded is how many datagrams of a loop the trace keeps.
const recorded = 1 << 15

func watchClient(k *kind) *watcher {
	return &watcher{of: k.watched, meter: watch.NewMeter(debug.About{Program: "client"})}
}

// telling are the metrics that can name a fault. The others count traffic.
var telling = []*metrics.Metric{metrics.Retransmits, metrics.Rollbacks, metrics.Drops,
	metrics.Refused, metrics.Sessions, metrics.SessionEvents, metrics.Queue, metrics.Calls}

// look returns the values of the telling metrics.
func (w *watcher) look() (values map[string]float64, frame *watch.Frame) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	snaps := erpc.Snapshots(ctx, erpc.SnapshotOptions{Sessions: erpc.MaxLook}, w.of)
	values = make(map[string]float64)
	for _, p := range metrics.Points(metrics.Options{}, snaps...) {
		ok := slices.Contains(p.Labels, "ok") || slices.Contains(p.Labels, "OK")
		if slices.Contains(telling, p.Metric) && !ok {
			values[p.Metric.Name+"{"+strings.Join(p.Labels, ",")+"}"] = p.Value
		}
	}
	return values, w.meter.Next(snaps)
}

// begin looks before the fault.
func (w *watcher) begin() {
	if w.of == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, r := range w.of.Rpcs() {
		_ = r.Record(ctx, recorded) // a loop that does not answer has no trace
	}
	w.then, _ = w.look()
}

// end looks again, and says what is different.
func (w *watcher) end() {
	if w.of == nil {
		return
	}
	now, f := w.look()
	for name, v := range now {
		if d := v - w.then[name]; math.Abs(d) >= 1 {
			w.signs = append(w.signs, fmt.Sprintf("%s %+.0f", name, d))
		}
	}
	slices.Sort(w.signs)
	lost := 0
	for _, s := range f.Sessions {
		if !s.Connected {
			lost++
		}
	}
	t := &f.Total
	w.top = fmt.Sprintf("failed %.0f/s, resent %.0f/s, dropped %.0f/s, in flight %d, queued %d, "+
		"sessions %d, not connected %d", t.Failed, t.Resent, t.Dropped, t.InFlight, t.Queued,
		t.Sessions, lost)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	open, again, all, late := 0, 0, 0, 0
	for _, r := range w.of.Rpcs() {
		d, err := r.Flight(ctx)
		if err != nil || d == nil {
			continue
		}
		for _, c := range d.Calls() {
			all++
			if c.Answer == 0 {
				open++
			}
			if c.Again > 0 {
				again++
			}
			if time.Duration(c.Took()) > slowCall {
				late++
			}
		}
	}
	w.trace = fmt.Sprintf("%d calls, %d without an answer, %d with packets sent again, %d slow", all,
		open, again, late)
	if all == 0 {
		w.trace = "no calls: sealed datagrams show none"
	}
}
