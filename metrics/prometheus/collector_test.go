package prometheus

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// rig is a server of types 1 (echo), 2 (echo inside the loop) and 3 (fails), and a client of it.
type rig struct {
	server *erpc.Server
	client *erpc.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	echo := func(_ context.Context, req []byte) ([]byte, error) { return req, nil }
	fail := func(context.Context, []byte) ([]byte, error) {
		return nil, &erpc.Error{Code: erpc.CodeNotFound}
	}
	inline := func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
	err = errors.Join(s.Handle(1, echo), s.HandleInline(2, inline), s.Handle(3, fail))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tr) }()
	own, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := erpc.Dial(ctx, own, tr.LocalAddr().String(), erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		<-served
	})
	return &rig{s, c}
}

// call makes n calls of a type.
func (r *rig) call(t *testing.T, typ uint8, n int, want erpc.Code) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		if _, err := r.client.Call(ctx, typ, []byte("1234")); erpc.CodeOf(err) != want {
			t.Fatal(err)
		}
	}
}

// TestCollect: calls are there by type, side and code after the first scrape.
func TestCollect(t *testing.T) {
	r := newRig(t)
	c := New(Config{TypeName: func(typ uint8) string {
		return map[uint8]string{1: "echo", 2: "inline", 3: "fail"}[typ]
	}}, r.server, r.client)
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) != 0 {
		t.Fatalf("%v: %+v", err, problems)
	}
	r.call(t, 1, 5, erpc.CodeOK)
	r.call(t, 2, 32, erpc.CodeOK)
	r.call(t, 3, 2, erpc.CodeNotFound)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			got[key(f.GetName(), m)] += m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	for k, want := range map[string]float64{
		"erpc_calls_total client echo OK": 5, "erpc_calls_total server echo OK": 5,
		"erpc_calls_total client inline OK": 32, "erpc_calls_total server inline OK": 32,
		"erpc_calls_total client fail NOT_FOUND": 2, "erpc_calls_total server fail NOT_FOUND": 2,
		"erpc_calls_started_total fail": 2, "erpc_call_latency_seconds client echo": 5,
		"erpc_call_bytes_total server echo request": 20, "erpc_handler_time_seconds inline": 32,
		"erpc_handler_time_seconds echo": 5, "erpc_sessions": 2, "erpc_late": 0,
	} {
		if v, ok := got[k]; !ok || v != want {
			t.Errorf("%s = %v, want %v", k, v, want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// key names a metric by its labels but for those of the endpoint.
func key(name string, m *dto.Metric) string {
	values := map[string]string{}
	for _, l := range m.Label {
		values[l.GetName()] = l.GetValue()
	}
	parts := []string{name}
	for _, label := range []string{"side", "type", "code", "message"} {
		if v := values[label]; v != "" {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, " ")
}

// TestStuckLoop: a scrape of a loop that is stuck ends in time, with the last counters.
func TestStuckLoop(t *testing.T) {
	r := newRig(t)
	stuck, free := make(chan struct{}), make(chan struct{})
	_ = r.client.Rpcs()[0].Post(func(*erpc.Rpc) { close(stuck); <-free })
	<-stuck
	defer close(free)
	c := New(Config{Timeout: time.Millisecond}, r.client)
	for range 3 {
		if late := testutil.ToFloat64(only{c, metrics.Late}); late != 1 {
			t.Errorf("late is %v", late)
		}
	}
}

// only is one measurement of a collector.
type only struct {
	*Collector
	m *metrics.Metric
}

func (o only) Describe(ch chan<- *prometheus.Desc) { ch <- o.descs[o.m] }

func (o only) Collect(ch chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric)
	go func() { o.Collector.Collect(all); close(all) }()
	for m := range all {
		if m.Desc() == o.descs[o.m] {
			ch <- m
		}
	}
}

// TestDurations: both kinds of buckets have every sample where it belongs.
func TestDurations(t *testing.T) {
	var h erpc.Histogram
	for _, ns := range []int64{0, 900, 40_000, 41_000, 3_000_000, 20_000_000_000} {
		h.Add(ns)
	}
	m, err := newDurations(prometheus.NewDesc("d", "", nil, nil), &h, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	d := out.Histogram
	if d.GetSampleCount() != 6 || math.Abs(d.GetSampleSum()-20.0030819) > 1e-6 {
		t.Errorf("%d samples, sum %v", d.GetSampleCount(), d.GetSampleSum())
	}
	for i, want := range map[int]uint64{0: 2, 3: 2, 5: 4, 10: 4, 11: 5, 21: 5} {
		if b := d.Bucket[i]; b.GetCumulativeCount() != want {
			t.Errorf("up to %v: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
	var native int64
	at, sum := int64(0), int64(0)
	for _, dlt := range d.PositiveDelta {
		at += dlt
		sum += at
		native++
	}
	if sum != 5 || d.GetZeroCount() != 1 || native != 4 {
		t.Errorf("native: %d samples in %d buckets, %d zeros", sum, native, d.GetZeroCount())
	}
}
