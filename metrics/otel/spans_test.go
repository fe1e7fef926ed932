package otel_test

import (
	"bytes"
	"context"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	"github.com/userspace-rpc/erpc/metrics/otel"
)

// recorder returns a provider and what it has recorded.
func recorder() (*sdk.TracerProvider, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	return sdk.NewTracerProvider(sdk.WithSpanProcessor(r)), r
}

// find returns the span of a kind that has ended.
func find(t *testing.T, r *tracetest.SpanRecorder, kind trace.SpanKind) sdk.ReadOnlySpan {
	t.Helper()
	for _, s := range r.Ended() {
		if s.SpanKind() == kind {
			return s
		}
	}
	t.Fatalf("there is no span of kind %v", kind)
	return nil
}

// TestSpans: a call makes a span at each side, the server's within the client's, which has the
// steps in their order. The request comes as it was.
func TestSpans(t *testing.T) {
	provider, got := recorder()
	tracer := otel.NewTracer(otel.TracerConfig{Provider: provider,
		TypeName: func(uint8) string { return "get" }})
	_, c := serve(t, tracer.Handle(typeEcho, echo), tracer.Handle(typeFail, bad))
	for _, request := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("long"), 5000)} {
		got.Reset()
		resp, err := tracer.Call(t.Context(), c, typeEcho, request)
		if err != nil || !bytes.Equal(resp, request) {
			t.Fatalf("%d bytes came back, %v", len(resp), err)
		}
		client, server := find(t, got, trace.SpanKindClient), find(t, got, trace.SpanKindServer)
		if server.Parent().SpanID() != client.SpanContext().SpanID() ||
			server.SpanContext().TraceID() != client.SpanContext().TraceID() ||
			client.Name() != "erpc call get" || server.Name() != "erpc serve get" {
			t.Errorf("%s in %s", server.Name(), client.Name())
		}
		last := client.StartTime()
		for i, e := range client.Events() {
			if want := []string{"enqueued", "first packet sent",
				"first packet answered"}[i]; e.Name != want {
				t.Errorf("step %d is %s, want %s", i, e.Name, want)
			}
			if i > 0 && e.Time.Before(last) {
				t.Errorf("%s is too early", e.Name)
			}
			last = e.Time
		}
		if len(client.Events()) != 3 || client.EndTime().Before(last) {
			t.Errorf("%d steps", len(client.Events()))
		}
	}
}

// TestSpanOfError: a failed call marks both spans; a request without a context is refused.
func TestSpanOfError(t *testing.T) {
	provider, got := recorder()
	tracer := otel.NewTracer(otel.TracerConfig{Provider: provider})
	s, c := serve(t, tracer.Handle(typeEcho, echo), tracer.Handle(typeFail, bad))
	if _, err := tracer.Call(t.Context(), c, typeFail, nil); erpc.CodeOf(err) != erpc.CodeNotFound {
		t.Errorf("%v", err)
	}
	for _, kind := range []trace.SpanKind{trace.SpanKindClient, trace.SpanKindServer} {
		if st := find(t, got, kind).Status(); st.Code != codes.Error || st.Description == "" {
			t.Errorf("%v: %+v", kind, st)
		}
	}
	for _, raw := range []string{"", "\x05abc", "\xff\xff\xff\xff\xff\xff", "\x02\x05a", "\x02\x01a",
		"\x80"} {
		if _, err := c.Call(t.Context(), typeEcho, []byte(raw)); erpc.CodeOf(err) !=
			erpc.CodeInvalidArgument {
			t.Errorf("%q: %v", raw, err)
		}
	}
	got.Reset()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := tracer.Call(t.Context(), c, typeEcho, nil); err == nil {
		t.Error("a closed client calls")
	}
	if find(t, got, trace.SpanKindClient).Status().Code != codes.Error {
		t.Error("the span says nothing")
	}
	_ = s
}

// TestContextTravels: baggage reaches the handler; a caller without a span sends none.
func TestContextTravels(t *testing.T) {
	provider, _ := recorder()
	tracer := otel.NewTracer(otel.TracerConfig{Provider: provider,
		Propagator: propagation.TraceContext{}})
	var remote []trace.SpanContext
	handler := func(ctx context.Context, b []byte) ([]byte, error) {
		remote = append(remote, trace.SpanContextFromContext(ctx))
		return b, nil
	}
	_, c := serve(t, tracer.Handle(typeEcho, handler), bad)
	ctx, outer := provider.Tracer("test").Start(t.Context(), "outer")
	if _, err := tracer.Call(ctx, c, typeEcho, nil); err != nil {
		t.Fatal(err)
	}
	if len(remote) != 1 || remote[0].TraceID() != outer.SpanContext().TraceID() {
		t.Errorf("%+v, want the trace %v", remote, outer.SpanContext().TraceID())
	}
	outer.End()
}

// TestGRPC: the stats handlers of otelgrpc make the same spans over package grpcerpc.
func TestGRPC(t *testing.T) {
	provider, got := recorder()
	opts := []otelgrpc.Option{otelgrpc.WithTracerProvider(provider),
		otelgrpc.WithPropagators(propagation.TraceContext{})}
	s := grpcerpc.NewServer(grpcerpc.StatsHandler(otelgrpc.NewServerHandler(opts...)))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	tr, ended := listen(t), make(chan error, 1)
	go func() { ended <- s.Serve(tr) }()
	cc, err := grpcerpc.NewClient(tr.LocalAddr().String(),
		grpcerpc.WithStatsHandler(otelgrpc.NewClientHandler(opts...)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := grpc_health_v1.NewHealthClient(cc).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
	s.Stop()
	<-ended
	client, server := find(t, got, trace.SpanKindClient), find(t, got, trace.SpanKindServer)
	if server.Parent().SpanID() != client.SpanContext().SpanID() ||
		client.Name() != "grpc.health.v1.Health/Check" {
		t.Errorf("%s, %s", client.Name(), server.Name())
	}
}

// FuzzUnwrap: no request makes a traced handler panic.
func FuzzUnwrap(f *testing.F) {
	provider, _ := recorder()
	fn := otel.NewTracer(otel.TracerConfig{Provider: provider}).Handle(typeEcho, echo)
	f.Add([]byte("\x02\x01a\x00payload"))
	f.Fuzz(func(_ *testing.T, request []byte) { _, _ = fn(context.Background(), request) })
}
