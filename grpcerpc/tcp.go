package grpcerpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// tcpOptions say how calls go over TCP.
type tcpOptions struct {
	target string
	opts   []grpc.DialOption
}

// WithTCP lets calls go over grpc-go and TCP when erpc cannot reach a server, and when they
// certainly never ran there. The target is that of grpc.NewClient; "" is the ClientConn's own: a
// server may have the same number for its ports of UDP and TCP. Transport credentials, per-RPC
// credentials, resolvers, stats handlers, user agent and default service config are those of the
// ClientConn; opts come behind them. Without transport credentials, those of erpc.Config.TLS are
// used, and with erpc.Config.PSK such as no plain server satisfies. A stream goes over TCP if erpc
// has no connection when it begins. Until the first try to connect has failed calls wait for it,
// for Config.Timing.ConnectTimeout at most; WaitForReady waits for TCP alone.
//
// A ClientConn with other transport credentials than those of NewTLS and of package insecure makes
// all calls over TCP, with these credentials, and never connects over erpc.
func WithTCP(target string, opts ...grpc.DialOption) DialOption {
	return func(o *dialOptions) error {
		o.tcp = &tcpOptions{target: target, opts: opts}
		return nil
	}
}

// isSecure reports whether credentials ask for what sessions cannot have.
func isSecure(c credentials.TransportCredentials) bool {
	_, ours := c.(*tlsCreds)
	return c != nil && !ours && !isLocal(c) && c.Info().SecurityProtocol != "insecure"
}

// checkSecurity returns an error if the options ask for security that there is no way to have.
func (o *dialOptions) checkSecurity() error {
	if isSecure(o.creds) {
		if o.tcp == nil {
			return fmt.Errorf("grpcerpc: transport credentials %q are not of grpcerpc.NewTLS; "+
				"write grpcerpc.NewTLS(cfg) with their *tls.Config, or WithTCP, or grpc.NewClient over TCP",
				o.creds.Info().SecurityProtocol)
		}
		return nil
	}
	return (&connCreds{seals: o.seals(), perRPC: o.perRPC}).check()
}

// dialTCP makes the connection for what cannot go over erpc. It connects with the first call.
func (cc *ClientConn) dialTCP() (err error) {
	o, t := &cc.opts, cc.opts.tcp
	if t == nil {
		return nil
	}
	target := t.target
	if target == "" {
		target = cc.target
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(cc.credsOverTCP()), grpc.WithUserAgent(o.userAgent),
		grpc.WithResolvers(append(o.resolvers[:len(o.resolvers):len(o.resolvers)], static{})...),
		grpc.WithMaxHeaderListSize(uint32(o.maxHeaders)), grpc.WithIdleTimeout(max(o.idle, 0)),
	}
	opts = append(opts, o.coders.dialTCP()...)
	if o.window != window {
		opts = append(opts, grpc.WithInitialWindowSize(int32(o.window)))
	}
	if o.keepalive != nil {
		opts = append(opts, grpc.WithKeepaliveParams(*o.keepalive))
	}
	if o.authority != "" {
		opts = append(opts, grpc.WithAuthority(o.authority))
	}
	if o.serviceConfig != "" {
		opts = append(opts, grpc.WithDefaultServiceConfig(o.serviceConfig))
	}
	if o.noService {
		opts = append(opts, grpc.WithDisableServiceConfig())
	}
	if o.noRetry {
		opts = append(opts, grpc.WithDisableRetry())
	}
	for _, c := range o.perRPC {
		opts = append(opts, grpc.WithPerRPCCredentials(c))
	}
	for _, h := range o.stats {
		opts = append(opts, grpc.WithStatsHandler(h))
	}
	if cc.tcp, err = grpc.NewClient(target, append(opts, t.opts...)...); err != nil {
		return fmt.Errorf("grpcerpc: over TCP: %w", err)
	}
	return nil
}

// credsOverTCP returns the credentials for connections over TCP: also those that resolvers and
// balancers make.
func (cc *ClientConn) credsOverTCP() credentials.TransportCredentials {
	sessions := &cc.opts.config
	if cc.opts.loops != nil {
		sessions = &cc.opts.loops.config
	}
	return credsOverTCP(cc.opts.creds, sessions)
}

// onlyTCP reports whether no call may go over erpc.
func (cc *ClientConn) onlyTCP() bool { return cc.tcp != nil && isSecure(cc.opts.creds) }

// mayTCP reports whether a call may go over TCP that certainly did not run over erpc.
func (cc *ClientConn) mayTCP(ctx context.Context) bool {
	return cc.tcp != nil && ctx.Err() == nil && cc.ctx.Err() == nil
}

// errOverTCP says that a stream is to begin over TCP.
var errOverTCP = status.Error(codes.Unavailable, "grpcerpc: no connection; TCP is tried")

// unreached reports whether the error of pick says that there is no connection.
func unreached(err error) bool { return status.Code(err) == codes.Unavailable }

// ServeTCP serves the registered services over grpc-go on a listener, which it owns, until Stop or
// GracefulStop. Then it returns nil. It may be called beside Serve: one server answers both. The
// interceptors, stats handlers, limits of messages and transport credentials are the Server's. The
// latter are those of Creds, else such as are made of ServerConfig's TLS. Opts, such as grpc.Creds,
// come behind them. A Server whose sessions have shared keys takes no connection over TCP without
// grpc.Creds.
func (s *Server) ServeTCP(lis net.Listener, opts ...grpc.ServerOption) error {
	o := &s.opts
	all := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(o.unary...), grpc.ChainStreamInterceptor(o.stream...),
		grpc.MaxRecvMsgSize(o.maxRecv), grpc.MaxSendMsgSize(o.maxSend), grpc.WaitForHandlers(o.waits),
		grpc.MaxConcurrentStreams(uint32(o.maxStreams)),
		grpc.MaxHeaderListSize(uint32(o.maxHeaders)), grpc.KeepaliveParams(o.keepalive),
	}
	for _, h := range o.stats {
		all = append(all, grpc.StatsHandler(h))
	}
	all = append(all, o.coders.serveTCP()...)
	if o.tap != nil {
		all = append(all, grpc.InTapHandle(o.tap))
	}
	if o.unknown != nil {
		all = append(all, grpc.UnknownServiceHandler(o.unknown))
	}
	if o.codec != nil {
		all = append(all, grpc.ForceServerCodecV2(o.codec))
	}
	all = append(all, grpc.Creds(credsOverTCP(o.creds, &o.config)))
	g := grpc.NewServer(append(all, opts...)...)
	s.mu.Lock()
	s.serving = true
	stopped := s.draining
	if !stopped {
		s.tcp = append(s.tcp, g)
		for _, sv := range s.services {
			g.RegisterService(sv.desc, sv.impl)
		}
	}
	s.mu.Unlock()
	if stopped {
		g.Stop()
		return errors.Join(ErrStopped, lis.Close())
	}
	err := g.Serve(lis)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining && errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// eachTCP calls f for all servers over TCP at once, and waits.
func (s *Server) eachTCP(f func(*grpc.Server)) {
	s.mu.Lock()
	list := s.tcp
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, g := range list {
		all.Go(func() { f(g) })
	}
	all.Wait()
}
