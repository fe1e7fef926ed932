package grpcerpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// callContext is the context of a unary call's handler: that of erpc, with metadata, peer and
// ServerTransportStream. It is a single pointer, where package context has a struct for each value;
// metadata is made only for handlers that look at it.
type callContext struct{ k *unaryCall }

// The keys of the values, which packages metadata, peer and grpc keep to themselves.
var (
	metadataKey = keyOf(func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	peerKey     = keyOf(func(ctx context.Context) { peer.FromContext(ctx) })
	streamKey   = keyOf(func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })
)

// probe is a context that notes the key that it is asked for.
type probe struct {
	context.Context
	key any
}

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

// keyOf returns the key that look asks a context for.
func keyOf(look func(context.Context)) any {
	p := &probe{Context: context.Background()}
	look(p)
	return p.key
}

// Deadline implements context.Context, as the following methods do.
func (c callContext) Deadline() (time.Time, bool) { return c.k.base.Deadline() }
func (c callContext) Done() <-chan struct{}       { return c.k.base.Done() }
func (c callContext) Err() error                  { return c.k.base.Err() }

func (c callContext) Value(key any) any {
	switch key {
	case metadataKey:
		return c.k.metadata()
	case peerKey:
		return c.k.conn.peer
	case streamKey:
		return c.k
	}
	return c.k.base.Value(key)
}

// AfterFunc saves package context a goroutine for each context that is made from this one.
func (c callContext) AfterFunc(f func()) (stop func() bool) {
	if a, ok := c.k.base.(interface{ AfterFunc(func()) func() bool }); ok {
		return a.AfterFunc(f)
	}
	return context.AfterFunc(c.k.base, f)
}

// metadata returns what came with the call, with the fields that gRPC adds.
func (k *unaryCall) metadata() metadata.MD {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.complete {
		k.complete = true
		k.incoming = k.conn.incoming(k.incoming, k.head)
	}
	return k.incoming
}
