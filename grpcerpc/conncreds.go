package grpcerpc

import (
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/grpc/credentials"
)

// connCreds are the credentials of connections: those of the ClientConn, or of a bundle that a
// balancer gave for some of them.
type connCreds struct {
	creds  credentials.TransportCredentials // nil: none were given
	seals  bool                             // sessions are encrypted, and know the server by a name
	perRPC []credentials.PerRPCCredentials
	loops  *Loops // that have sessions of these credentials; nil: the ClientConn's loop
	err    error  // why no session can have them
}

// WithCredentialsBundle takes the transport and the per-RPC credentials of a bundle, in place of
// WithTransportCredentials. Resolvers and balancers see the bundle.
func WithCredentialsBundle(b credentials.Bundle) DialOption {
	return func(o *dialOptions) error {
		o.bundle = b
		return nil
	}
}

// unbundle takes what a bundle gives.
func (o *dialOptions) unbundle() error {
	if o.bundle == nil {
		return nil
	}
	if o.creds != nil {
		return errors.New("grpcerpc: WithTransportCredentials and WithCredentialsBundle: " +
			"give one of them")
	}
	if o.creds = sealing(o.bundle.TransportCredentials()); o.creds == nil {
		return errors.New("grpcerpc: the credentials bundle has no transport credentials")
	}
	if c := o.bundle.PerRPCCredentials(); c != nil {
		o.perRPC = append(o.perRPC, c)
	}
	return nil
}

// bundled returns the credentials of connections with a bundle, as grpc-go does: its transport
// credentials take the place of the ClientConn's, and its per-RPC credentials come to those. The
// connections have event loops of their own, which are the policy's for each bundle.
func (p *policy) bundled(b credentials.Bundle) *connCreds {
	if b == nil {
		return &p.cc.creds
	}
	p.bundling.Lock()
	defer p.bundling.Unlock()
	known := reflect.ValueOf(b).Comparable()
	if known && p.bundles[b] != nil {
		return p.bundles[b]
	}
	own := p.cc.creds
	if c := b.PerRPCCredentials(); c != nil {
		own.perRPC = append(own.perRPC[:len(own.perRPC):len(own.perRPC)], c)
	}
	if c := sealing(b.TransportCredentials()); isSecure(c) {
		own.err = fmt.Errorf("grpcerpc: NewSubConnOptions.CredsBundle: transport credentials %q are "+
			"not of grpcerpc.NewTLS; write that with their *tls.Config", c.Info().SecurityProtocol)
	} else if c != nil {
		own.creds = c
		_, own.seals = c.(*tlsCreds)
		own.loops = p.cc.loopsBy(c)
	}
	if known {
		if p.bundles == nil {
			p.bundles = make(map[credentials.Bundle]*connCreds)
		}
		p.bundles[b] = &own
	}
	return &own
}

// loopsBy returns Loops like the ClientConn's whose sessions have other credentials.
func (cc *ClientConn) loopsBy(c credentials.TransportCredentials) *Loops {
	open, cfg := cc.opts.transport, cc.opts.config
	if l := cc.opts.loops; l != nil {
		open, cfg = l.open, l.config
	} else if open == nil {
		open = openAuto
	}
	cfg.TLS, cfg.PSK, cfg.Keyring = nil, nil, nil
	if t, ok := c.(*tlsCreds); ok {
		cfg.TLS = cc.named(t)
	}
	return NewLoops(open, cfg)
}

// loop returns an event loop for a connection, and what gives it back.
func (c *connCreds) loop(cc *ClientConn) (l *sharedLoop, release func() error, err error) {
	if c.loops == nil {
		return cc.loop, func() error { return nil }, nil
	}
	if l, err = c.loops.acquire(); err != nil {
		return nil, nil, err
	}
	return l, l.release, nil
}

// check returns an error if there can be no connection with the credentials, or if calls would
// carry what must not travel in the clear.
func (c *connCreds) check() error {
	if c.err != nil {
		return c.err
	}
	for _, from := range c.perRPC {
		if from.RequireTransportSecurity() && !c.seals {
			return errClear
		}
	}
	return nil
}

var errClear = errors.New("grpcerpc: the credentials require transport level security, and the " +
	"sessions of grpcerpc are not sealed")

// authInfo returns what per-RPC credentials learn of the connections.
func (c *connCreds) authInfo() credentials.AuthInfo {
	if c.seals {
		return credentials.TLSInfo{CommonAuthInfo: private}
	}
	return security.AuthInfo
}
