package otel_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics"
	"github.com/userspace-rpc/erpc/metrics/otel"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// Request types of the tests.
const (
	typeEcho = 1
	typeFail = 2
)

func listen(t *testing.T) transport.Transport {
	t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// serve runs a server with handlers for both types, and returns it and a client of it.
func serve(t *testing.T, echo, bad erpc.Func) (*erpc.Server, *erpc.Client) {
	t.Helper()
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Handle(typeEcho, echo), s.Handle(typeFail, bad)); err != nil {
		t.Fatal(err)
	}
	tr, ended := listen(t), make(chan error, 1)
	go func() { ended <- s.Serve(tr) }()
	c, err := erpc.Dial(t.Context(), listen(t), tr.LocalAddr().String(), erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return s, c
}

func echo(_ context.Context, b []byte) ([]byte, error) { return b, nil }

func bad(context.Context, []byte) ([]byte, error) {
	return nil, &erpc.Error{Code: erpc.CodeNotFound, Text: "there is none"}
}

// TestProducer: a reader of the SDK collects the whole catalogue, with the counts that there are.
func TestProducer(t *testing.T) {
	s, c := serve(t, echo, bad)
	reader := metric.NewManualReader(metric.WithProducer(otel.NewProducer(otel.Config{}, s, c)))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil { // counting by type begins
		t.Fatal(err)
	}
	const n = 20
	for range n {
		if _, err := c.Call(t.Context(), typeEcho, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Call(t.Context(), typeFail, nil); erpc.CodeOf(err) != erpc.CodeNotFound {
		t.Fatal(err)
	}
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	found := map[string]metricdata.Aggregation{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m.Data
		}
	}
	for _, m := range metrics.Catalogue {
		if found["erpc."+m.Name] == nil {
			t.Errorf("%s is missing", m.Name)
		}
	}
	ended := 0.0
	for _, p := range found["erpc.calls"].(metricdata.Sum[float64]).DataPoints {
		code, _ := p.Attributes.Value("code")
		if side, _ := p.Attributes.Value("side"); side.AsString() == "client" &&
			(code.AsString() == erpc.CodeNotFound.String() || code.AsString() == erpc.CodeOK.String()) {
			ended += p.Value
		}
	}
	if ended != n+1 {
		t.Errorf("%v calls ended, want %d", ended, n+1)
	}
	latencies := found["erpc.call.latency"].(metricdata.ExponentialHistogram[float64])
	for _, p := range latencies.DataPoints {
		var sum, most uint64
		least := math.Inf(1)
		for i, k := range p.PositiveBucket.Counts {
			if sum += k; k > 0 {
				most = k
				least = min(least, math.Exp2(float64(int(p.PositiveBucket.Offset)+i)/8))
			}
		}
		if side, _ := p.Attributes.Value("side"); side.AsString() == "client" &&
			(sum+p.ZeroCount != p.Count || most == 0 || p.Sum < least*0.9*float64(sum)) {
			t.Errorf("%+v", p)
		}
	}
}
