package simlab

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long skips what takes very long under the race detector, which finds nothing in
// simulations: they have one goroutine.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("minutes under the race detector, in one goroutine")
	}
}

// small is an incast that takes a fraction of a second.
func small() IncastConfig {
	return IncastConfig{Degrees: []int{5}, CC: []bool{false}, Size: 1 << 20, Credits: 32,
		Warmup: 2 * time.Millisecond, Duration: 6 * time.Millisecond, Seed: 3}
}

func incastOf(t *testing.T, c IncastConfig) IncastResult {
	t.Helper()
	res, err := Incast(t.Context(), c, nil)
	if err != nil || res.Interrupted || len(res.Rows) != len(c.Degrees)*len(c.CC) {
		t.Fatalf("%+v, %v", res, err)
	}
	return res
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s is %g, want %g within %g %%", what, got, want, 100*share)
	}
}

// Without congestion control all credits of all clients stand in the victim's queue,
// whose length follows from arithmetic.
func TestIncastWithoutCC(t *testing.T) {
	long(t)
	row := incastOf(t, small()).Rows[0]
	const wire = 1024 + sim.EthernetOverhead
	near(t, "goodput", row.Gbps, 25*1000.0/wire, 0.005)
	queue := 5.0 * 32 * wire
	near(t, "p50", row.P50, queue*8/25e9*1e6, 0.05)
	near(t, "p99", row.P99, queue*8/25e9*1e6, 0.05)
	// One CR stands for 8 packets, so up to 7 of a client's 32 may be neither in the queue nor sent
	// anew.
	near(t, "deepest queue", float64(row.MaxQueue), 5*(32-7/2.0)*wire, 0.1)
	// the ends are a millisecond old
	near(t, "samples", float64(row.Packets), row.Gbps*6e6/8/1000/8, 0.25)
	if row.Jain < 0.999 || row.Drops != 0 || row.Retransmits != 0 || row.CC != "none" ||
		row.Paper != nil {
		t.Errorf("%+v", row)
	}
}

// The victim asks for large responses: the same queue, of responses.
func TestIncastReverse(t *testing.T) {
	long(t)
	c := small()
	c.Reverse = true
	row := incastOf(t, c).Rows[0]
	near(t, "goodput", row.Gbps, 25*1000.0/1090, 0.005)
	near(t, "p50", row.P50, 5*32*1090*8/25e9*1e6, 0.05)
	if row.Jain < 0.99 || row.Retransmits != 0 {
		t.Errorf("%+v", row)
	}
}

// Queues that overflow are seen as drops and packets sent again, which do not count
// as goodput.
func TestIncastWithDrops(t *testing.T) {
	long(t)
	c := small()
	c.Degrees, c.Credits = []int{40}, 1024
	c.Duration = 20 * time.Millisecond
	row := incastOf(t, c).Rows[0]
	if row.Drops == 0 || row.Retransmits == 0 || row.Gbps > 23 || row.Gbps < 1 {
		t.Errorf("%+v", row)
	}
}

func TestIncastBackground(t *testing.T) {
	long(t)
	c := small()
	c.Background = true
	row := incastOf(t, c).Rows[0]
	b := row.Background
	// 64 kB each way over 25 Gbit/s take 45 us at least.
	if b == nil || b.Rpcs < 100 || b.P50 < 45 || b.P99 < b.P50 {
		t.Fatalf("%+v, background %+v", row, b)
	}
	c.Degrees = []int{1} // nobody to talk to
	if b := incastOf(t, c).Rows[0].Background; b == nil || b.Rpcs != 0 {
		t.Errorf("background %+v", b)
	}
}

// Every algorithm runs, DCQCN with marks, and rows with and without are compared.
func TestIncastRows(t *testing.T) {
	long(t)
	for _, a := range []erpc.CCAlgorithm{erpc.CCTimely, erpc.CCDCQCN, erpc.CCSwift} {
		c := small()
		c.Degrees, c.CC, c.Algorithm = []int{2, 20}, []bool{true, false}, a
		res := incastOf(t, c)
		if len(res.Pairs) != 2 || res.Rows[0].CC != a.String() || res.Rows[1].CC != "none" ||
			res.Algorithm != a.String() {
			t.Fatalf("%+v", res)
		}
		on, off, p := res.Rows[2], res.Rows[3], res.Pairs[1]
		near(t, "p50 ratio", p.P50, off.P50/on.P50, 1e-9)
		near(t, "p99 ratio", p.P99, off.P99/on.P99, 1e-9)
		near(t, "share", p.Share, on.Gbps/off.Gbps, 1e-9)
		if on.Paper == nil || on.Paper.P50 != 39 || off.Paper == nil || off.Paper.P99 != 204 {
			t.Errorf("the paper's rows: %+v, %+v", on.Paper, off.Paper)
		}
		near(t, "the paper's p50 ratio", p.Paper.P50, 202.0/39, 1e-9)
	}
}

func TestFairnessWithoutCC(t *testing.T) {
	long(t)
	r, err := Fairness(t.Context(), small(), erpc.CCNone, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Credits alone share evenly, and at once.
	if r.Jain < 0.999 || r.JainMin < 0.999 || r.Jain > 1.0001 || r.Settled == nil ||
		*r.Settled > 0.004 || r.Flows != 20 {
		t.Errorf("%+v", r)
	}
}

func TestLoss(t *testing.T) {
	long(t)
	c := LossConfig{Rates: []float64{0, 1e-3}, Algorithm: erpc.CCNone, Size: 8 << 20, Credits: 32,
		Duration: 40 * time.Millisecond, Seeds: 3, Seed: 1}
	res, err := Loss(t.Context(), c, nil)
	if err != nil || len(res.Rows) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	free, lossy := res.Rows[0], res.Rows[1]
	// All that the link carries: with a CR for each packet the hosts kept it to the paper's 75.
	near(t, "bandwidth without loss", free.Gbps, 100*4072.0/(4096+sim.EthernetOverhead), 0.02)
	if free.Share != 1 || free.Lost != 0 || free.Retransmits != 0 || free.Paper != PaperLossFree {
		t.Errorf("%+v", free)
	}
	// one run, both directions
	near(t, "packets without loss", float64(free.Packets), (1+1/8.0)*free.Gbps*40e6/8/4072, 0.02)
	if lossy.Lost == 0 || lossy.Retransmits < lossy.Lost/2 || lossy.Gbps <= 0 ||
		lossy.Gbps > free.Gbps || lossy.Paper != 2.5 {
		t.Errorf("%+v", lossy)
	}
	near(t, "lost", float64(lossy.Lost), 1e-3*float64(lossy.Packets), 0.5)
	if lossy.Least > lossy.Gbps || lossy.Gbps > lossy.Most || lossy.Least == lossy.Most {
		t.Errorf("the runs differ in their seeds, and the median is between the ends: %+v", lossy)
	}
}

func smallScale() ScaleConfig {
	return ScaleConfig{Nodes: 4, Threads: []int{2, 1}, Size: 32, Batch: 3, Window: 60,
		Warmup: 100 * time.Microsecond, Duration: 300 * time.Microsecond, Seed: 5}
}

func TestScale(t *testing.T) {
	res, err := Scale(t.Context(), smallScale(), nil)
	if err != nil || len(res.Rows) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	for i, sessions := range []int{2 * 2 * 7, 2 * 1 * 3} {
		r := res.Rows[i]
		if r.Sessions != sessions || r.Rpcs == 0 || r.P50 > r.P99 || r.P99 > r.P999 || r.P999 > r.P9999 ||
			r.P50 <= 5 || r.Drops != 0 || r.Setup <= 0 {
			t.Errorf("%+v", r)
		}
		// A thread of the paper issues and serves 5 Mrps of each; Little's law ties rate and latency.
		near(t, "rate per thread", r.Mrps/float64(r.Threads), 5, 0.1)
		near(t, "mean latency", r.P50, 60/(r.Mrps/float64(r.Threads)), 0.2)
		near(t, "RPCs", float64(r.Rpcs), r.Mrps*4*300, 1e-9)
		leave := float64(3*r.Threads) / float64(4*r.Threads-1) // the others stay within the node
		near(t, "sent", r.Gbps, leave*r.Mrps*1e6*2*(32+24+sim.EthernetOverhead)*8/1e9, 0.02)
		if r.Heap < 500 || r.Heap > 1e6 || r.Buffers <= 0 {
			t.Errorf("memory: %g and %g B per session", r.Heap, r.Buffers)
		}
	}
}

func TestSlots(t *testing.T) {
	long(t)
	for _, c := range [][3]int{{100, 1, 8}, {100, 2, 8}, {100, 5, 4}, {100, 10, 4}, {4, 1, 128},
		{4, 2, 64}, {2, 1, 128}} {
		s := ScaleConfig{Nodes: c[0], Window: 60}
		if got := s.slots(c[1]); got != c[2] {
			t.Errorf("%d nodes of %d threads: %d slots, want %d", c[0], c[1], got, c[2])
		}
	}
}

// A window that is larger than the slots of the sessions waits in their queues.
func TestScaleWithLargeWindow(t *testing.T) {
	long(t)
	c := smallScale()
	c.Nodes, c.Threads, c.Window, c.Batch, c.Algorithm = 2, []int{1}, 1000, 1000, erpc.CCDCQCN
	res, err := Scale(t.Context(), c, nil)
	if err != nil || len(res.Rows) != 1 || res.Rows[0].Rpcs == 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestRacks(t *testing.T) {
	long(t)
	c := ScaleConfig{Nodes: 100}
	var sizes [5]int
	for node := range 100 {
		sizes[c.rackOf(node)]++
	}
	if sizes != [5]int{14, 18, 20, 21, 27} {
		t.Errorf("racks of %v nodes", sizes)
	}
	c.Nodes = 2
	if a, b := c.rackOf(0), c.rackOf(1); a == b || b > 4 {
		t.Errorf("two nodes are in racks %d and %d", a, b)
	}
}

// TestDeterminism: the same seed gives the same result byte for byte, another one another.
func TestDeterminism(t *testing.T) {
	long(t)
	for name, run := range map[string]func(seed uint64) (any, error){
		"incast": func(seed uint64) (any, error) {
			c := small()
			c.Seed, c.Background, c.CC = seed, true, []bool{true}
			return Incast(t.Context(), c, nil)
		},
		"loss": func(seed uint64) (any, error) {
			return Loss(t.Context(), LossConfig{Rates: []float64{1e-3}, Size: 1 << 20, Credits: 32,
				Duration: 20 * time.Millisecond, Seeds: 1, Seed: seed}, nil)
		},
		"workload": func(seed uint64) (any, error) {
			c := smallWorkload()
			c.Seed = seed
			return Workload(t.Context(), c, nil)
		},
		"scale": func(seed uint64) (any, error) {
			c := smallScale()
			c.Seed = seed
			return Scale(t.Context(), c, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := func(seed uint64) string {
				res, err := run(seed)
				if err != nil {
					t.Fatal(err)
				}
				b, err := json.Marshal(res)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			a, b, other := text(1), text(1), text(2)
			if a != b {
				t.Errorf("two runs with seed 1:\n%s\n%s", a, b)
			}
			if strings.Replace(other, `"seed":2`, `"seed":1`, 1) == a {
				t.Errorf("seeds 1 and 2 give the same: %s", a)
			}
		})
	}
}

// TestInterrupted: when the context ends, the finished rows are returned.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := small()
	c.Degrees = []int{1, 2, 3}
	res, err := Incast(ctx, c, func(what string, _ float64) {
		if strings.Contains(what, "incast of 2") {
			cancel()
		}
	})
	if err != nil || !res.Interrupted || len(res.Rows) != 1 || res.Rows[0].Degree != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := Loss(ctx, LossConfig{Size: 1 << 20, Duration: time.Second, Seeds: 1},
		nil); err != nil || !res.Interrupted || len(res.Rows) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := Scale(ctx, smallScale(), nil); err != nil || !res.Interrupted ||
		len(res.Rows) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := Workload(ctx, smallWorkload(), nil); err != nil || !res.Interrupted ||
		len(res.Rows) != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := Fairness(ctx, c, erpc.CCNone, nil); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

// TestProgress: it grows from 0 to 1 within each step.
func TestProgress(t *testing.T) {
	last := map[string]float64{}
	c := small()
	_, err := Incast(t.Context(), c, func(what string, part float64) {
		if part < last[what] || part > 1.0001 {
			t.Errorf("%s: from %g to %g", what, last[what], part)
		}
		last[what] = part
	})
	if err != nil || len(last) != 2 || last["incast of 5, cc none"] < 0.99 ||
		last["incast of 5, cc none: opening sessions"] != 1 {
		t.Errorf("%v, %v", last, err)
	}
}

func TestConfigErrors(t *testing.T) {
	c := small()
	c.Credits = -1
	if _, err := Incast(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), "Credits") {
		t.Errorf("%v", err)
	}
}

func TestStatistics(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{[]float64{3, 3, 3, 3}, 1}, {[]float64{7, 0, 0, 0}, 0.25}, {[]float64{1, 3}, 0.8}, {nil,
		0}, {[]float64{0, 0}, 0}} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("jain(%v) = %g, want %g", c.shares, got, c.want)
		}
	}
	if median([]float64{5, 1, 9}) != 5 || median([]float64{4, 1, 2, 9}) != 3 {
		t.Error("median")
	}
	if !within(80, 100) || within(100, 79) || !within(0, 0) || within(0, 1) {
		t.Error("within")
	}
	if ratio(1, 0) != 0 || ratio(6, 3) != 2 {
		t.Error("ratio")
	}
}
