package otel_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/metrics/otel"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// connected returns a Server whose type 1 is served by fn, and a Client of it.
func connected(ctx context.Context, fn erpc.Func) (*erpc.Server, *erpc.Client) {
	server, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := server.Handle(1, fn); err != nil {
		log.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(tr) }() // ErrClosed after Close
	own, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		log.Fatal(err)
	}
	// With a limit of its own the Client has a Loop of its own, which counts its calls alone.
	cfg := erpc.Config{MaxSessions: 1 << 10}
	client, err := erpc.Dial(ctx, own, tr.LocalAddr().String(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	return server, client
}

// Both sides wrap what they do in a Tracer. The spans go where the provider sends them: to a
// collector in a program, to a list here.
func ExampleTracer() {
	ctx := context.Background()
	list := tracetest.NewInMemoryExporter()
	tracer := otel.NewTracer(otel.TracerConfig{
		Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(list)),
		TypeName: func(uint8) string { return "greet" },
	})
	server, client := connected(ctx, tracer.Handle(1,
		func(_ context.Context, name []byte) ([]byte, error) {
			return fmt.Appendf(nil, "Hello, %s!", name), nil
		}))
	answer, err := tracer.Call(ctx, client, 1, []byte("gopher"))
	fmt.Println(string(answer), err)
	for _, s := range list.GetSpans() {
		fmt.Printf("%s, within another: %v, steps: %d\n", s.Name, s.Parent.IsValid(), len(s.Events))
	}
	if err := errors.Join(client.Close(), server.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Hello, gopher! <nil>
	// erpc serve greet, within another: true, steps: 0
	// erpc call greet, within another: false, steps: 3
}

// A Producer goes to a reader of the SDK, here one that reads when it is told to; in a program a
// periodic one of an exporter.
func ExampleProducer() {
	ctx := context.Background()
	server, client := connected(ctx, func(_ context.Context, b []byte) ([]byte, error) {
		return b, nil
	})
	reader := sdk.NewManualReader(sdk.WithProducer(otel.NewProducer(otel.Config{}, client)))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	var got metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &got); err != nil { // counting by type begins
		log.Fatal(err)
	}
	for range 3 {
		if _, err := client.Call(ctx, 1, nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := reader.Collect(ctx, &got); err != nil {
		log.Fatal(err)
	}
	for _, m := range got.ScopeMetrics[0].Metrics {
		if m.Name == "erpc.call.latency" {
			h := m.Data.(metricdata.ExponentialHistogram[float64])
			fmt.Println(m.Name, "of", h.DataPoints[0].Count, "calls, in", m.Unit)
		}
	}
	if err := errors.Join(provider.Shutdown(ctx), client.Close(), server.Close()); err != nil {
		log.Fatal(err)
	}
	// Output: erpc.call.latency of 3 calls, in s
}
