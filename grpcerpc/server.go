package grpcerpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
	"github.com/userspace-rpc/erpc/transport"
)

// ErrStopped is returned by Serve after Stop or GracefulStop, as grpc.ErrServerStopped.
var ErrStopped = grpc.ErrServerStopped

// service is a registered service: its description and its implementation.
type service struct {
	desc *grpc.ServiceDesc
	impl any
}

// method is one method of a service.
type method struct {
	name   string // "/service/method"
	impl   any
	unary  *grpc.MethodDesc // nil for one of streams
	stream *grpc.StreamDesc
	info   grpc.UnaryServerInfo
}

// takesOne reports whether the method has one request; not for nil, of which nothing is known.
func (m *method) takesOne() bool {
	return m != nil && (m.stream == nil || !m.stream.ClientStreams)
}

// Server serves services that are registered as with a grpc.Server, on any number of transports.
type Server struct {
	opts     serverOptions
	rpc      *erpc.Server
	unary    grpc.UnaryServerInterceptor  // nil if there is none
	stream   grpc.StreamServerInterceptor // nil if there is none
	ctx      context.Context
	cancel   context.CancelFunc
	services map[string]service
	methods  map[string]*method // fixed once serving has begun

	mu       sync.Mutex
	gone     sync.Cond // there is a connection less, or Stop was called
	serving  bool
	draining bool
	conns    map[uint64]*serverConn
	peers    map[transport.Addr]int // how many of them each address has
	serves   sync.WaitGroup         // calls of Serve
	handlers sync.WaitGroup         // goroutines of streams
	tcp      []*grpc.Server         // of ServeTCP
}

// NewServer returns a Server without services. It panics if the configuration that ServerConfig
// gave is wrong, as grpc.NewServer does for options that contradict each other.
func NewServer(opts ...ServerOption) *Server {
	o := serverOptions{maxRecv: defaultMaxRecv, maxSend: defaultMaxSend, maxStreams: 1 << 14,
		maxHeaders: defaultMaxHeaders, clock: systemClock}
	for _, opt := range opts {
		opt(&o)
	}
	err := o.keepAlive()
	var rpc *erpc.Server
	if err == nil {
		rpc, err = erpc.NewServer(o.secured())
	}
	if err != nil {
		panic(fmt.Sprintf("grpcerpc: %v", err))
	}
	s := &Server{
		opts: o, rpc: rpc, unary: chainUnary(o.unary), stream: chainStream(o.stream),
		services: make(map[string]service), methods: make(map[string]*method),
		conns: make(map[uint64]*serverConn), peers: make(map[transport.Addr]int),
	}
	s.gone.L = &s.mu
	s.ctx, s.cancel = context.WithCancel(context.Background())
	err = errors.Join(
		rpc.Handle(frame.TypeHello, s.onHello),
		rpc.Handle(frame.TypeLife, s.onLife),
		rpc.HandleLater(frame.TypeLeave, s.onLeave),
		rpc.HandleRequest(frame.TypeUnary, s.onUnary),
		rpc.HandleRequest(frame.TypeLarge, s.onUnary),
		rpc.HandleInline(frame.TypeExchange, s.onExchange),
	)
	if err != nil {
		panic(fmt.Sprintf("grpcerpc: %v", err))
	}
	return s
}

// RegisterService registers a service, as generated code does. It panics as grpc.Server does: after
// Serve, for a service that is registered already, and if impl is not of the service's type.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if impl != nil {
		want := reflect.TypeOf(desc.HandlerType).Elem()
		if got := reflect.TypeOf(impl); !got.Implements(want) {
			panic(fmt.Sprintf("grpcerpc: %v is no %v", got, want))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		panic(fmt.Sprintf("grpcerpc: RegisterService(%q) after Serve", desc.ServiceName))
	}
	if _, ok := s.services[desc.ServiceName]; ok {
		panic(fmt.Sprintf("grpcerpc: service %q is registered already", desc.ServiceName))
	}
	s.services[desc.ServiceName] = service{desc, impl}
	for i := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + desc.Methods[i].MethodName
		s.methods[name] = &method{name: name, impl: impl, unary: &desc.Methods[i],
			info: grpc.UnaryServerInfo{Server: impl, FullMethod: name}}
	}
	for i := range desc.Streams {
		name := "/" + desc.ServiceName + "/" + desc.Streams[i].StreamName
		s.methods[name] = &method{name: name, impl: impl, stream: &desc.Streams[i]}
	}
}

// GetServiceInfo returns the registered services, as package reflection asks for them.
func (s *Server) GetServiceInfo() map[string]grpc.ServiceInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make(map[string]grpc.ServiceInfo, len(s.services))
	for name, sv := range s.services {
		info := grpc.ServiceInfo{Metadata: sv.desc.Metadata}
		for _, m := range sv.desc.Methods {
			info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.MethodName})
		}
		for _, m := range sv.desc.Streams {
			info.Methods = append(info.Methods, grpc.MethodInfo{
				Name: m.StreamName, IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams,
			})
		}
		list[name] = info
	}
	return list
}

// Serve serves on a transport, which it owns, until Stop or GracefulStop. Then it returns nil. Call
// it once per transport, each in its own goroutine. After Stop it returns ErrStopped.
func (s *Server) Serve(tr transport.Transport) error {
	s.mu.Lock()
	s.serving = true
	stopped := s.draining
	if !stopped {
		s.serves.Add(1)
	}
	s.mu.Unlock()
	if stopped {
		return errors.Join(ErrStopped, tr.Close())
	}
	err := s.rpc.Serve(tr)
	s.serves.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining && errors.Is(err, erpc.ErrClosed) {
		return nil
	}
	return err
}

// GracefulStop refuses new connections, tells all clients to go elsewhere, waits until they have
// gone, and stops. What they call before they know is served. A client has gone when its last call
// has ended; one that does not go takes no new calls after drainWithin.
func (s *Server) GracefulStop() {
	for _, c := range s.refuse() {
		c.drain()
	}
	s.eachTCP((*grpc.Server).GracefulStop)
	s.mu.Lock()
	for len(s.conns) > 0 && s.ctx.Err() == nil {
		s.gone.Wait()
	}
	s.mu.Unlock()
	_ = s.rpc.Shutdown(s.ctx) // its error says that Stop came in between
	s.stop(true)
}

// refuse has the server take no new connections, and returns those that it has.
func (s *Server) refuse() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	return slices.Collect(maps.Values(s.conns))
}

// Stop ends all calls and all connections, and the contexts of handlers. With WaitForHandlers it
// waits for them to return.
func (s *Server) Stop() { s.stop(s.opts.waits) }

func (s *Server) stop(wait bool) {
	all := s.refuse()
	s.cancel()
	for _, c := range all {
		c.close()
	}
	s.mu.Lock()
	s.gone.Broadcast()
	s.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		_ = s.rpc.Close() // nothing is left to be done about it; it waits for unary handlers
		close(closed)
	}()
	s.eachTCP((*grpc.Server).Stop)
	if s.serves.Wait(); wait {
		<-closed
		s.handlers.Wait()
	}
}

// tapped asks the tap handle about a call. It returns the context of its handler, or the status
// that ends it.
func (s *Server) tapped(
	ctx context.Context, method string, md metadata.MD,
) (context.Context, error) {
	ctx, err := s.opts.tap(ctx, &tap.Info{FullMethodName: method, Header: md})
	if err == nil {
		return ctx, nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codes.PermissionDenied, err.Error())
	}
	return nil, err
}

// lookup returns the method of a name, nil if there is none.
func (s *Server) lookup(name []byte) *method { return s.methods[string(name)] }

// unknownText says which part of a method's name is not registered.
func (s *Server) unknownText(name string) string {
	at := strings.LastIndexByte(name, '/')
	if !strings.HasPrefix(name, "/") || at <= 0 {
		return fmt.Sprintf("malformed method name: %q", name)
	}
	if _, ok := s.services[name[1:at]]; !ok {
		return "unknown service " + name[1:at]
	}
	return fmt.Sprintf("unknown method %v for service %v", name[at+1:], name[1:at])
}

// chainUnary makes one interceptor of several; nil of none.
func chainUnary(list []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if len(list) == 0 {
		return nil
	}
	return func(
		ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
	) (any, error) {
		return unaryFrom(list, 0, info, handler)(ctx, req)
	}
}

func unaryFrom(
	list []grpc.UnaryServerInterceptor, at int, info *grpc.UnaryServerInfo, last grpc.UnaryHandler,
) grpc.UnaryHandler {
	if at == len(list) {
		return last
	}
	return func(ctx context.Context, req any) (any, error) {
		return list[at](ctx, req, info, unaryFrom(list, at+1, info, last))
	}
}

// chainStream makes one interceptor of several; nil of none.
func chainStream(list []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if len(list) == 0 {
		return nil
	}
	return func(
		srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
	) error {
		return streamFrom(list, 0, info, handler)(srv, ss)
	}
}

func streamFrom(
	list []grpc.StreamServerInterceptor, at int, info *grpc.StreamServerInfo,
	last grpc.StreamHandler,
) grpc.StreamHandler {
	if at == len(list) {
		return last
	}
	return func(srv any, ss grpc.ServerStream) error {
		return list[at](srv, ss, info, streamFrom(list, at+1, info, last))
	}
}

// Stats returns the counters of erpc's event loops, one for each Serve.
func (s *Server) Stats() []erpc.Stats { return s.rpc.Stats() }
