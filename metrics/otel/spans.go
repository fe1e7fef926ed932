package otel

import (
	"context"
	"errors"
	"strconv"

	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/userspace-rpc/erpc/erpc"
)

// TracerConfig configures a Tracer. The zero value works.
type TracerConfig struct {
	// Provider makes the spans. Default: the global one.
	Provider trace.TracerProvider
	// Propagator writes the context into requests and reads it. Default: W3C Trace Context and
	// Baggage. Both sides need the same.
	Propagator propagation.TextMapPropagator
	// TypeName names a request type in the names of spans. Default: its number.
	TypeName func(reqType uint8) string
}

// Tracer makes spans of calls. It is safe in any goroutine.
type Tracer struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	typeName   func(uint8) string
}

// NewTracer returns a Tracer.
func NewTracer(cfg TracerConfig) *Tracer {
	if cfg.Provider == nil {
		cfg.Provider = global.GetTracerProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{},
			propagation.Baggage{})
	}
	if cfg.TypeName == nil {
		cfg.TypeName = func(t uint8) string { return strconv.Itoa(int(t)) }
	}
	return &Tracer{cfg.Provider.Tracer(Scope), cfg.Propagator, cfg.TypeName}
}

// Caller makes calls: a Client or a Pool.
type Caller interface {
	Call(ctx context.Context, reqType uint8, request []byte) ([]byte, error)
}

// attributesOf are those of a span of either side (semantic conventions for RPC).
func (t *Tracer) attributesOf(reqType uint8) trace.SpanStartOption {
	return trace.WithAttributes(attribute.String("rpc.system", "erpc"),
		attribute.String("rpc.method", t.typeName(reqType)),
		attribute.Int("erpc.request_type", int(reqType)))
}

// Call is c.Call within a span of its own, a child of the one in ctx. The server's handler must be
// one of Handle. The request is copied.
func (t *Tracer) Call(
	ctx context.Context, c Caller, reqType uint8, request []byte,
) ([]byte, error) {
	ctx, span := t.tracer.Start(ctx, "erpc call "+t.typeName(reqType),
		trace.WithSpanKind(trace.SpanKindClient), t.attributesOf(reqType))
	var front carrier
	t.propagator.Inject(ctx, &front)
	if !span.IsRecording() {
		defer span.End()
		return c.Call(ctx, reqType, front.wrap(request))
	}
	steps := new(erpc.CallTrace)
	resp, err := c.Call(erpc.WithCallTrace(ctx, steps), reqType, front.wrap(request))
	fail(span, err)
	if errors.Is(err, erpc.ErrClosed) { // the loop may still write to steps
		span.End()
		return resp, err
	}
	t.steps(span, steps)
	return resp, err
}

// steps ends the span of a call with the steps that it took.
func (t *Tracer) steps(span trace.Span, s *erpc.CallTrace) {
	for _, step := range []struct {
		name string
		at   erpc.Time
	}{
		{"enqueued", s.Enqueued}, {"first packet sent", s.Sent},
		{"first packet answered", s.Answered},
	} {
		if at := s.Wall(step.at); !at.IsZero() {
			span.AddEvent(step.name, trace.WithTimestamp(at))
		}
	}
	if s.Ended == 0 { // it never began
		span.End()
		return
	}
	span.SetAttributes(attribute.String("network.peer.address", s.Peer.String()),
		attribute.Int64("erpc.session", int64(s.Session)),
		attribute.Int("erpc.request.size", s.Request),
		attribute.Int("erpc.response.size", s.Response),
		attribute.String("erpc.code", s.Code.String()))
	if s.Unloaded > 0 {
		span.SetAttributes(attribute.Float64("erpc.network_us", float64(s.Unloaded)/1e3))
	}
	span.End(trace.WithTimestamp(s.WallClock))
}

// Handle returns fn within a span of its own, a child of the caller's, for Server.Handle. The
// request that fn gets is without the context, and as borrowed as the one before. Requests without
// a context in front are refused with CodeInvalidArgument.
func (t *Tracer) Handle(reqType uint8, fn erpc.Func) erpc.Func {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		front, payload, err := unwrap(request)
		if err != nil {
			return nil, &erpc.Error{Code: erpc.CodeInvalidArgument, Text: err.Error()}
		}
		ctx = t.propagator.Extract(ctx, &front)
		ctx, span := t.tracer.Start(ctx, "erpc serve "+t.typeName(reqType),
			trace.WithSpanKind(trace.SpanKindServer), t.attributesOf(reqType))
		defer span.End()
		if h, ok := erpc.HandleFrom(ctx); ok {
			span.SetAttributes(attribute.String("network.peer.address", h.Peer().String()))
		}
		resp, err := fn(ctx, payload)
		fail(span, err)
		return resp, err
	}
}

// fail notes an error.
func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, erpc.CodeOf(err).String())
}
