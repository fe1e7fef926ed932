package grpcerpc

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// DialOption configures a ClientConn. The options have the names of grpc's; those of grpc itself
// are opaque and cannot be taken.
type DialOption func(*dialOptions) error

type dialOptions struct {
	transport     func() (transport.Transport, error) // nil: it was not given
	config        erpc.Config
	configured    bool   // config was given
	loops         *Loops // nil: they were not given
	unary         []grpc.UnaryClientInterceptor
	stream        []grpc.StreamClientInterceptor
	callOptions   []grpc.CallOption
	userAgent     string
	authority     string
	resolvers     []resolver.Builder
	serviceConfig string
	noService     bool
	noRetry       bool
	noHealth      bool
	maxAttempts   int // tries of a call, at most
	backoff       backoff.Config
	perRPC        []credentials.PerRPCCredentials
	stats         []stats.Handler
	maxHeaders    int
	coders        coders
	window        int                              // bytes that a stream may have received unread
	creds         credentials.TransportCredentials // nil: none were given
	bundle        credentials.Bundle               // nil: none was given
	tcp           *tcpOptions                      // nil: calls go over erpc alone
	keepalive     *keepalive.ClientParameters      // nil: erpc's
	idle          time.Duration                    // without calls, until it rests; 0: never
	clock         clock
}

// WithTransport chooses what packets travel over. The function is called once, and the ClientConn
// owns what it returns: it has an event loop of its own. It is called again for connections to
// which a balancer gives credentials of their own. The default is package transport/auto on any
// port: shared memory to servers of this machine that have it, UDP to all others.
func WithTransport(open func() (transport.Transport, error)) DialOption {
	return func(o *dialOptions) error {
		o.transport = open
		return nil
	}
}

// WithConfig sets the configuration of the event loop, which is the ClientConn's own then. Fields
// that are zero get the defaults that package doc names.
func WithConfig(cfg erpc.Config) DialOption {
	return func(o *dialOptions) error {
		o.config, o.configured = cfg, true
		return nil
	}
}

// WithLoops has the ClientConn share event loops with all others that have the same Loops. It does
// not go with WithTransport and WithConfig.
func WithLoops(l *Loops) DialOption {
	return func(o *dialOptions) error {
		o.loops = l
		return nil
	}
}

// WithDefaultCallOptions sets options of all calls. Those of a call come after them.
func WithDefaultCallOptions(opts ...grpc.CallOption) DialOption {
	return func(o *dialOptions) error {
		o.callOptions = append(o.callOptions, opts...)
		return nil
	}
}

// WithUnaryInterceptor puts an interceptor in front of all others.
func WithUnaryInterceptor(i grpc.UnaryClientInterceptor) DialOption {
	return func(o *dialOptions) error {
		o.unary = append([]grpc.UnaryClientInterceptor{i}, o.unary...)
		return nil
	}
}

// WithChainUnaryInterceptor adds interceptors; the first one is the outermost.
func WithChainUnaryInterceptor(list ...grpc.UnaryClientInterceptor) DialOption {
	return func(o *dialOptions) error {
		o.unary = append(o.unary, list...)
		return nil
	}
}

// WithStreamInterceptor puts an interceptor in front of all others.
func WithStreamInterceptor(i grpc.StreamClientInterceptor) DialOption {
	return func(o *dialOptions) error {
		o.stream = append([]grpc.StreamClientInterceptor{i}, o.stream...)
		return nil
	}
}

// WithChainStreamInterceptor adds interceptors; the first one is the outermost.
func WithChainStreamInterceptor(list ...grpc.StreamClientInterceptor) DialOption {
	return func(o *dialOptions) error {
		o.stream = append(o.stream, list...)
		return nil
	}
}

// WithUserAgent puts a text in front of the user agent that servers see.
func WithUserAgent(text string) DialOption {
	return func(o *dialOptions) error {
		o.userAgent = text + " " + o.userAgent
		return nil
	}
}

// WithAuthority sets the :authority that servers see. Default: the target's name.
func WithAuthority(name string) DialOption {
	return func(o *dialOptions) error {
		o.authority = name
		return nil
	}
}

// WithResolvers adds resolvers for this ClientConn. They are preferred to registered ones.
func WithResolvers(list ...resolver.Builder) DialOption {
	return func(o *dialOptions) error {
		o.resolvers = append(o.resolvers, list...)
		return nil
	}
}

// WithDefaultServiceConfig sets the service config, JSON, that holds if the resolver gives none.
func WithDefaultServiceConfig(json string) DialOption {
	return func(o *dialOptions) error {
		_, err := parseServiceConfig(json)
		o.serviceConfig = json
		return err
	}
}

// WithDisableServiceConfig ignores the service configs of resolvers.
func WithDisableServiceConfig() DialOption {
	return func(o *dialOptions) error {
		o.noService = true
		return nil
	}
}

// WithDisableRetry turns off the retries of the service config. Calls that certainly never ran are
// tried again all the same.
func WithDisableRetry() DialOption {
	return func(o *dialOptions) error {
		o.noRetry = true
		return nil
	}
}

// WithMaxCallAttempts bounds the tries that the retryPolicy of a service config makes of a call.
// Default 5, also for n below 2.
func WithMaxCallAttempts(n int) DialOption {
	return func(o *dialOptions) error {
		if n < 2 {
			n = defaultMaxAttempts
		}
		o.maxAttempts = n
		return nil
	}
}

// WithDisableHealthCheck ignores the healthCheckConfig of service configs.
func WithDisableHealthCheck() DialOption {
	return func(o *dialOptions) error {
		o.noHealth = true
		return nil
	}
}

// WithConnectParams sets how long to wait before another try to connect. How long a try takes is
// erpc's Config.Timing.ConnectTimeout.
func WithConnectParams(p grpc.ConnectParams) DialOption {
	return func(o *dialOptions) error {
		o.backoff = p.Backoff
		return nil
	}
}

// WithPerRPCCredentials adds what the credentials give to the metadata of each call. Credentials
// that require transport security are an error but for a ClientConn with transport credentials of
// NewTLS, or whose calls are all over TCP; see WithTCP.
func WithPerRPCCredentials(c credentials.PerRPCCredentials) DialOption {
	return func(o *dialOptions) error {
		o.perRPC = append(o.perRPC, c)
		return nil
	}
}

// WithTransportCredentials takes credentials of NewTLS, by which sessions are encrypted, of package
// insecure, or of package local, which refuse servers of other machines. With others all calls go
// over TCP if WithTCP says how; without it they are an error of NewClient.
func WithTransportCredentials(c credentials.TransportCredentials) DialOption {
	return func(o *dialOptions) error {
		o.creds = sealing(c)
		return nil
	}
}

// WithStatsHandler adds a stats handler.
func WithStatsHandler(h stats.Handler) DialOption {
	return func(o *dialOptions) error {
		if h != nil {
			o.stats = append(o.stats, h)
		}
		return nil
	}
}

// WithInitialWindowSize sets how many bytes of a stream's messages a server may have sent that the
// application has not read. Default 256 KiB; values below 64 KiB are ignored, as in grpc.
func WithInitialWindowSize(n int32) DialOption {
	return func(o *dialOptions) error {
		if n >= 64<<10-1 {
			o.window = int(n)
		}
		return nil
	}
}

// WithStaticStreamWindowSize is WithInitialWindowSize: windows of streams do not change.
func WithStaticStreamWindowSize(n int32) DialOption { return WithInitialWindowSize(n) }

// WithMaxHeaderListSize bounds the metadata that is received, as gRPC counts it. Default 16 MiB.
func WithMaxHeaderListSize(n uint32) DialOption {
	return func(o *dialOptions) error {
		o.maxHeaders = int(n)
		return nil
	}
}
