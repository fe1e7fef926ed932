// Package otel gives OpenTelemetry what erpc knows: the measurements of event loops as metrics, and
// calls as spans.
//
// # Map
//
//	owns       a producer of metrics and a tracer of calls
//	called by  the OpenTelemetry SDK and applications
//	never      a collection holds up a loop
//
// # Metrics
//
// A [Producer] is given to a reader of the SDK (metric.WithProducer). When it is collected it asks
// the loops for snapshots, with a time limit, and hands on the catalogue of package metrics under
// the names that it has there. Latencies are exponential histograms.
//
// # Spans
//
// [Tracer.Call] makes a client's span around a call, with the steps of its [erpc.CallTrace] as
// events: enqueued, first packet sent, first packet answered. [Tracer.Handle] makes a server's span
// around a handler, its child. The context travels in the request, in front of the payload: a
// length (uvarint), then that many bytes of keys and values, each with its length. A propagator
// fills it in, W3C Trace Context and Baggage by default. So both sides must use a Tracer for such
// a request type; a request without that front is refused with CodeInvalidArgument.
//
// Programs on package grpcerpc need none of this: its clients and servers take the stats handlers
// of otelgrpc, as grpc-go's do.
package otel
