package grpcerpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	_ "google.golang.org/grpc/resolver/dns" // registers dns
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
)

var errNoAddress = errors.New("grpcerpc: the resolver gave no address")

// ClientConn calls the servers of a target. It takes the place of a *grpc.ClientConn in generated
// stubs. It may be used from any number of goroutines.
type ClientConn struct {
	target    string
	parsed    resolver.Target
	builder   resolver.Builder
	authority string
	opts      dialOptions
	loop      *sharedLoop
	creds     connCreds
	patience  time.Duration    // helloWithin, but in tests
	grpc      *grpc.ClientConn // never dialled; runs the interceptors
	tcp       *grpc.ClientConn // for calls that cannot go over erpc; nil if none may
	ctx       context.Context
	cancel    context.CancelFunc
	idle      idleness
	period    atomic.Pointer[period] // nil while it rests
	streams   unfinished
	config    atomic.Pointer[serviceConfig]
	picker    atomic.Pointer[picking]
	servers   atomic.Int64   // that the resolver knows
	silent    atomic.Int64   // of them, that get no calls for it
	closing   sync.WaitGroup // of links that close
	work      sync.WaitGroup // goroutines of background

	throttle atomic.Pointer[throttle] // of retries; nil: none

	serial  serial // the resolver and the balancers run in it
	applied bool   // a service config holds, or that there is none; in serial

	mu       sync.Mutex
	closed   bool
	policies policies
	subConns []*subConn
	links    map[*link]struct{} // that are open
	resolver resolver.Resolver
	state    connectivity.State
	changed  chan struct{} // closed when state changes
}

// picking is a picker, until there is another.
type picking struct {
	picker balancer.Picker // nil before the first one
	newer  chan struct{}   // closed when there is another
	closed bool            // the ClientConn is
}

// NewClient makes a ClientConn of a target as gRPC names it: scheme:///name for each resolver that
// is registered with grpc or given by WithResolvers, HOST:PORT, which is dns:///HOST:PORT,
// shm:NAME, or addresses with commas between them, which is static:///A,B. It connects with the
// first call, over the event loop of a Loops.
func NewClient(target string, options ...DialOption) (*ClientConn, error) {
	cc := &ClientConn{target: target, state: connectivity.Idle, changed: make(chan struct{}),
		links: make(map[*link]struct{}), patience: helloWithin}
	cc.idle.cc = cc
	cc.idle.calls.Store(asleep)
	cc.opts = dialOptions{
		userAgent: "grpc-go/" + grpc.Version + " grpcerpc/1", backoff: backoff.DefaultConfig,
		window: window, maxHeaders: defaultMaxHeaders, maxAttempts: defaultMaxAttempts,
		idle: defaultIdle, clock: systemClock,
	}
	for _, opt := range options {
		if err := opt(&cc.opts); err != nil {
			return nil, err
		}
	}
	if err := cc.opts.unbundle(); err != nil {
		return nil, err
	}
	if err := errors.Join(cc.opts.checkSecurity(), cc.opts.keepAlive()); err != nil {
		return nil, err
	}
	cc.creds = connCreds{creds: cc.opts.creds, seals: cc.opts.seals(), perRPC: cc.opts.perRPC}
	if cc.opts.serviceConfig != "" {
		config, _ := parseServiceConfig(cc.opts.serviceConfig) // it was parsed before
		cc.config.Store(config)
		cc.throttle.Store(newThrottle(config))
	}
	if err := cc.parseTarget(); err != nil {
		return nil, err
	}
	if err := cc.shadow(); err != nil {
		return nil, err
	}
	cc.picker.Store(&picking{newer: make(chan struct{})})
	if err := cc.dialTCP(); err != nil {
		return nil, errors.Join(err, cc.closeGRPC())
	}
	loops, err := cc.loops()
	if err != nil {
		return nil, errors.Join(err, cc.closeGRPC())
	}
	if cc.loop, err = loops.acquire(); err != nil {
		return nil, errors.Join(err, cc.closeGRPC())
	}
	cc.ctx, cc.cancel = context.WithCancel(context.Background())
	return cc, nil
}

// closeGRPC closes the connections of grpc-go.
func (cc *ClientConn) closeGRPC() error {
	if cc.tcp == nil {
		return cc.grpc.Close()
	}
	return errors.Join(cc.grpc.Close(), cc.tcp.Close())
}

// parseTarget finds the resolver of the target, and its authority.
func (cc *ClientConn) parseTarget() error {
	u, err := url.Parse(cc.target)
	if err == nil {
		cc.builder = cc.resolverFor(u.Scheme)
	}
	if cc.builder == nil {
		scheme := "dns:///"
		switch {
		case strings.Contains(cc.target, ","):
			scheme = "static:///"
		case strings.HasPrefix(cc.target, "shm:"): // as package shm prints its addresses
			scheme = "passthrough:///"
		}
		if u, err = url.Parse(scheme + cc.target); err != nil {
			return fmt.Errorf("grpcerpc: target %q: %w", cc.target, err)
		}
		cc.builder = cc.resolverFor(u.Scheme)
	}
	cc.parsed = resolver.Target{URL: *u}
	named := "" // by the credentials
	if cc.opts.creds != nil {
		named = cc.opts.creds.Info().ServerName //lint:ignore SA1019 older credentials have it
	}
	if cc.opts.authority != "" && named != "" && named != cc.opts.authority {
		return fmt.Errorf("grpcerpc: the authority of the credentials is %q, that of WithAuthority %q",
			named, cc.opts.authority)
	}
	switch o, ok := cc.builder.(resolver.AuthorityOverrider); {
	case cc.opts.authority != "":
		cc.authority = cc.opts.authority
	case named != "":
		cc.authority = named
	case ok:
		cc.authority = o.OverrideAuthority(cc.parsed)
	default:
		cc.authority = escapeAuthority(cc.parsed.Endpoint())
		if strings.HasPrefix(cc.authority, ":") {
			cc.authority = "localhost" + cc.authority
		}
	}
	return nil
}

// escapeAuthority escapes what an authority may not have (RFC 3986, 3.2), as grpc-go does.
func escapeAuthority(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-_.~!$&'()*+,;=:[]@", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// resolverFor returns the resolver of a scheme, nil if there is none.
func (cc *ClientConn) resolverFor(scheme string) resolver.Builder {
	for _, b := range cc.opts.resolvers {
		if b.Scheme() == scheme {
			return b
		}
	}
	if scheme == "static" {
		return static{}
	}
	return resolver.Get(scheme)
}

// shadow makes the grpc.ClientConn that interceptors get, and that runs them. The last interceptor
// is ours: no call gets further, so it never dials.
func (cc *ClientConn) shadow() (err error) {
	unary := append(cc.opts.unary[:len(cc.opts.unary):len(cc.opts.unary)], func(
		ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		return cc.invoke(ctx, method, req, reply, opts)
	})
	stream := append(cc.opts.stream[:len(cc.opts.stream):len(cc.opts.stream)], func(
		ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string,
		_ grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		return cc.newStream(ctx, desc, method, opts)
	})
	cc.grpc, err = grpc.NewClient(cc.target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithResolvers(append(cc.opts.resolvers, static{})...),
		grpc.WithDefaultCallOptions(cc.opts.callOptions...),
		grpc.WithChainUnaryInterceptor(unary...), grpc.WithChainStreamInterceptor(stream...))
	if err != nil {
		return fmt.Errorf("grpcerpc: %w", err)
	}
	return nil
}

// GRPC returns a *grpc.ClientConn whose calls are those of cc, for code that asks for the type. It
// has no connection of its own: its state is always idle. Close cc instead of it.
func (cc *ClientConn) GRPC() *grpc.ClientConn { return cc.grpc }

// Target returns the target of NewClient.
func (cc *ClientConn) Target() string { return cc.target }

// Invoke makes a unary call; generated code calls it.
func (cc *ClientConn) Invoke(
	ctx context.Context, method string, args, reply any, opts ...grpc.CallOption,
) error {
	if len(cc.opts.unary) > 0 {
		return cc.grpc.Invoke(ctx, method, args, reply, opts...)
	}
	return cc.invoke(ctx, method, args, reply, cc.combine(opts))
}

// NewStream begins a stream; generated code calls it.
func (cc *ClientConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if len(cc.opts.stream) > 0 {
		return cc.grpc.NewStream(ctx, desc, method, opts...)
	}
	return cc.newStream(ctx, desc, method, cc.combine(opts))
}

// combine puts the options of a call behind those of all calls.
func (cc *ClientConn) combine(opts []grpc.CallOption) []grpc.CallOption {
	if d := cc.opts.callOptions; len(d) > 0 {
		return append(d[:len(d):len(d)], opts...)
	}
	return opts
}

// Connect begins to connect, as the first call does.
func (cc *ClientConn) Connect() {
	if cc.onlyTCP() {
		cc.tcp.Connect()
		return
	}
	if cc.idle.wake() {
		return
	}
	cc.serial.do(func() {
		cc.mu.Lock()
		p := cc.policies.latest()
		cc.mu.Unlock()
		if p != nil {
			p.balancer.ExitIdle()
		}
	})
}

// await waits for the first result of the resolver: what its service config says of methods holds
// for all calls. The call is counted in.
func (cc *ClientConn) await(ctx context.Context) (waited bool, err error) {
	p := cc.period.Load()
	if p == nil {
		return false, errClosing
	}
	select {
	case <-p.resolved:
		return false, nil
	default:
	}
	select {
	case <-p.resolved:
		return true, nil
	case <-ctx.Done():
		return true, status.FromContextError(ctx.Err()).Err()
	case <-cc.ctx.Done():
		return true, errClosing
	}
}

// background runs f in a goroutine that Close waits for. It reports false after Close.
func (cc *ClientConn) background(f func()) bool {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	if cc.closed {
		return false
	}
	cc.work.Go(f)
	return true
}

func (cc *ClientConn) forget(sc *subConn) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	for i, other := range cc.subConns {
		if other == sc {
			cc.subConns = append(cc.subConns[:i:i], cc.subConns[i+1:]...)
			return
		}
	}
}

// setPicker takes what the current policy says. Cc.mu is held.
func (cc *ClientConn) setPicker(s balancer.State) {
	if cc.closed {
		return
	}
	cc.setState(s.ConnectivityState)
	old := cc.picker.Swap(&picking{picker: s.Picker, newer: make(chan struct{})})
	close(old.newer)
}

func (cc *ClientConn) setState(s connectivity.State) {
	if cc.state != s {
		cc.state = s
		close(cc.changed)
		cc.changed = make(chan struct{})
	}
}

// GetState returns the state of the connections together.
func (cc *ClientConn) GetState() connectivity.State {
	if cc.onlyTCP() {
		return cc.tcp.GetState()
	}
	cc.mu.Lock()
	defer cc.mu.Unlock()
	return cc.state
}

// WaitForStateChange waits until the state is another than s. It reports false if ctx ends first.
func (cc *ClientConn) WaitForStateChange(ctx context.Context, s connectivity.State) bool {
	if cc.onlyTCP() {
		return cc.tcp.WaitForStateChange(ctx, s)
	}
	cc.mu.Lock()
	changed, same := cc.changed, cc.state == s
	cc.mu.Unlock()
	if !same {
		return true
	}
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close ends all calls with Canceled, and all connections.
func (cc *ClientConn) Close() error {
	cc.mu.Lock()
	if cc.closed {
		cc.mu.Unlock()
		return status.Error(codes.Canceled, "grpc: the client connection is closing")
	}
	cc.closed = true
	cc.setState(connectivity.Shutdown)
	old := cc.picker.Swap(&picking{closed: true})
	close(old.newer)
	r := cc.resolver
	cc.mu.Unlock()
	cc.cancel()
	cc.idle.close()
	if r != nil {
		r.Close()
	}
	cc.serial.close(func() {
		cc.mu.Lock()
		both := cc.policies
		cc.mu.Unlock()
		both.close()
	})
	cc.work.Wait()
	cc.closeLinks()
	for _, r := range cc.streams.list() { // who closes a ClientConn need not receive any more
		go r.abandon(r.current.Load(), errClosing)
	}
	return errors.Join(cc.loop.release(), cc.closeGRPC())
}

// closeLinks ends all connections, and the calls that they have.
func (cc *ClientConn) closeLinks() {
	cc.mu.Lock()
	links := slices.Collect(maps.Keys(cc.links))
	cc.mu.Unlock()
	for _, l := range links {
		l.end()
	}
	cc.closing.Wait()
}

// pick chooses a connection, and waits for one as the call wants it, and for a place there. The
// call is counted in at the link.
func (cc *ClientConn) pick(
	ctx context.Context, c *callInfo, failFast bool,
) (*link, balancer.PickResult, error) {
	for {
		l, r, err := cc.pickLink(ctx, c, failFast)
		if err != nil {
			return nil, r, err
		}
		ok, err := l.places.enter(ctx)
		if ok {
			return l, r, nil
		}
		l.drop()
		if r.Done != nil {
			r.Done(balancer.DoneInfo{Err: err})
		}
		if err != nil {
			return nil, r, err
		}
	}
}

// pickLink chooses a connection, and waits for one as the call wants it.
func (cc *ClientConn) pickLink(
	ctx context.Context, c *callInfo, failFast bool,
) (*link, balancer.PickResult, error) {
	if c.only != nil {
		l, err := c.only.choose()
		return l, balancer.PickResult{}, err
	}
	var last error
	for waited := false; ; waited = true {
		p := cc.picker.Load()
		if p.closed {
			return nil, balancer.PickResult{}, errClosing
		}
		if p.picker != nil {
			r, err := p.picker.Pick(balancer.PickInfo{FullMethodName: c.method, Ctx: ctx})
			if err == nil {
				if sc, ok := r.SubConn.(*subConn); ok {
					if l := sc.use(); l != nil {
						if waited {
							c.tellPicked(ctx)
						}
						return l, r, nil
					}
				}
				if r.Done != nil {
					r.Done(balancer.DoneInfo{})
				}
			} else if err != balancer.ErrNoSubConnAvailable {
				if _, ok := status.FromError(err); ok {
					return nil, r, restricted(err, "received picker error with illegal status")
				}
				if last = err; failFast {
					return nil, r, status.Error(codes.Unavailable, err.Error())
				}
			}
		}
		select {
		case <-p.newer:
		case <-ctx.Done():
			return nil, balancer.PickResult{}, waitError(ctx, last)
		}
	}
}

// restricted is an error of a balancer or of credentials that is a status: Internal if it has a
// code that is for servers alone (gRFC A54).
func restricted(err error, what string) error {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition,
		codes.Aborted, codes.OutOfRange, codes.DataLoss:
		return status.Errorf(codes.Internal, "%s: %v", what, err)
	}
	return err
}

// waitError is the error of a call whose context ended while it waited for a connection.
func waitError(ctx context.Context, last error) error {
	st := status.FromContextError(ctx.Err())
	if last == nil {
		return st.Err()
	}
	return status.Errorf(st.Code(), "%s while waiting for connections to become ready; last error: %v",
		st.Message(), last)
}

// static is the resolver of lists of addresses.
type static struct{}

func (static) Scheme() string { return "static" }

func (static) Build(
	t resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	var s resolver.State
	for _, a := range strings.Split(t.Endpoint(), ",") {
		if a = strings.TrimSpace(a); a != "" {
			s.Addresses = append(s.Addresses, resolver.Address{Addr: a})
		}
	}
	if len(s.Addresses) == 0 {
		return nil, errNoAddress
	}
	return static{}, cc.UpdateState(s)
}

func (static) ResolveNow(resolver.ResolveNowOptions) {}

func (static) Close() {}

// Stats returns the counters of the event loop: packets, retransmissions, sessions. They are those
// of all ClientConns that share it.
func (cc *ClientConn) Stats() erpc.Stats { return cc.loop.Stats() }
