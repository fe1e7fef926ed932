package grpcerpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// ServerOption configures a Server. The options have the names of grpc's.
type ServerOption func(*serverOptions)

type serverOptions struct {
	config     erpc.Config
	unary      []grpc.UnaryServerInterceptor
	stream     []grpc.StreamServerInterceptor
	maxRecv    int
	maxSend    int
	maxStreams int
	maxHeaders int
	told       frame.Welcome // the limits that were given: clients are told
	unknown    grpc.StreamHandler
	stats      []stats.Handler
	codec      encoding.CodecV2
	coders     coders
	tap        tap.ServerInHandle               // nil: none
	waits      bool                             // Stop does, for handlers
	creds      credentials.TransportCredentials // nil: none were given
	keepalive  keepalive.ServerParameters
	clock      clock
}

// ServerConfig sets the configuration of the event loops. Fields that are zero get the defaults
// that package doc names.
func ServerConfig(cfg erpc.Config) ServerOption {
	return func(o *serverOptions) { o.config = cfg }
}

// UnaryInterceptor puts an interceptor in front of all others.
func UnaryInterceptor(i grpc.UnaryServerInterceptor) ServerOption {
	return func(o *serverOptions) {
		o.unary = append([]grpc.UnaryServerInterceptor{i}, o.unary...)
	}
}

// ChainUnaryInterceptor adds interceptors; the first one is the outermost.
func ChainUnaryInterceptor(list ...grpc.UnaryServerInterceptor) ServerOption {
	return func(o *serverOptions) { o.unary = append(o.unary, list...) }
}

// StreamInterceptor puts an interceptor in front of all others.
func StreamInterceptor(i grpc.StreamServerInterceptor) ServerOption {
	return func(o *serverOptions) {
		o.stream = append([]grpc.StreamServerInterceptor{i}, o.stream...)
	}
}

// ChainStreamInterceptor adds interceptors; the first one is the outermost.
func ChainStreamInterceptor(list ...grpc.StreamServerInterceptor) ServerOption {
	return func(o *serverOptions) { o.stream = append(o.stream, list...) }
}

// MaxRecvMsgSize bounds a request message, in bytes. Default 4 MiB.
func MaxRecvMsgSize(n int) ServerOption { return func(o *serverOptions) { o.maxRecv = n } }

// MaxSendMsgSize bounds a response message, in bytes. Default: as large as an int32.
func MaxSendMsgSize(n int) ServerOption { return func(o *serverOptions) { o.maxSend = n } }

// MaxConcurrentStreams bounds the calls of one connection, unary ones too: its client has further
// ones wait until others have ended. As many handlers of its streams run at a time; those of
// streams that their client has left count until they return, and others wait for that. Zero means
// nothing. Without it calls do not wait, and a connection has at most 16,384 handlers of streams. A
// client that has more than twice as many streams begun, and more than 64 beyond n, gets
// ResourceExhausted.
func MaxConcurrentStreams(n uint32) ServerOption {
	return func(o *serverOptions) {
		if n > 0 {
			o.maxStreams, o.told.MaxCalls = int(n), uint64(n)
		}
	}
}

// laterLeaves is how many streams a client may begin at least before the server hears that it has
// left others: it says both from goroutines of their own.
const laterLeaves = 64

// mostBegun returns how many streams a connection may have begun.
func (o *serverOptions) mostBegun() int { return o.maxStreams + max(o.maxStreams, laterLeaves) }

// MaxHeaderListSize bounds the metadata of a call, as gRPC counts it, in bytes. Default 16 MiB.
// Clients learn of it, and end calls beyond it with Internal. More than 524,288 pairs are malformed
// whatever their size.
func MaxHeaderListSize(n uint32) ServerOption {
	return func(o *serverOptions) { o.maxHeaders, o.told.MaxHeaders = int(n), uint64(n) }
}

// UnknownServiceHandler runs for methods that no registered service has.
func UnknownServiceHandler(h grpc.StreamHandler) ServerOption {
	return func(o *serverOptions) { o.unknown = h }
}

// InTapHandle sets what sees calls before their handlers, interceptors and stats handlers. The
// context that it returns is the handler's. Its error ends the call: a status as it is, another one
// with PermissionDenied. Unlike grpc-go's, it may run in several goroutines at once.
func InTapHandle(h tap.ServerInHandle) ServerOption {
	return func(o *serverOptions) { o.tap = h }
}

// WaitForHandlers has Stop wait for handlers to return. Default false.
func WaitForHandlers(w bool) ServerOption { return func(o *serverOptions) { o.waits = w } }

// StatsHandler adds a stats handler.
func StatsHandler(h stats.Handler) ServerOption {
	return func(o *serverOptions) {
		if h != nil {
			o.stats = append(o.stats, h)
		}
	}
}

// ForceServerCodecV2 makes the server use a codec for all messages, whatever the client names.
func ForceServerCodecV2(c encoding.CodecV2) ServerOption {
	return func(o *serverOptions) { o.codec = c }
}

// ForceServerCodec is ForceServerCodecV2 for a codec of the older kind.
func ForceServerCodec(c encoding.Codec) ServerOption {
	return func(o *serverOptions) { o.codec = codecV1{c} }
}
