package echo

import (
	"context"
	"errors"
	"sync"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
	"google.golang.org/grpc/credentials"
)

// Redialling are peers of which each call dials, calls and closes, in the order of tables: this
// library by Dial and by the Dial of one Loop; in the clear, with a shared key, with TLS where the
// keys of before go on, and with new ones each time.
func Redialling() []Peer {
	psk := func() erpc.Config { return erpc.Config{PSK: [][]byte{[]byte("labs/peers, 16 B")}} }
	config := sync.OnceValue(TLSConfig)
	mutual := func() erpc.Config { return erpc.Config{TLS: config()} }
	each := func() erpc.Config { return erpc.Config{TLS: config().Clone()} }
	grpcTLS := grpcTLSPeer
	grpcTLS.Dial = func(_ context.Context, addr string, z Sizes) (Conn, error) {
		return clientGRPC(addr, z, credentials.NewTLS(config()))
	}
	return []Peer{
		redialling("grpc-go-dial", grpcPeer),
		redialling("tcp-dial", netRPCPeer),
		redialling("erpc-dial", erpcDials(erpcPlain)),
		redialling("erpc-loop-dial", erpcDialsOnLoop(erpcPlain)),
		redialling("erpc-psk-dial", erpcDials(psk)),
		redialling("erpc-psk-loop-dial", erpcDialsOnLoop(psk)),
		redialling("grpc-go-tls-dial", grpcTLS),
		redialling("erpc-tls-dial", erpcDials(mutual)),
		redialling("erpc-tls-loop-dial", erpcDialsOnLoop(mutual)),
		redialling("erpc-tls-new-dial", erpcDials(each)),
		redialling("erpc-tls-new-loop-dial", erpcDialsOnNewLoop(each)),
	}
}

// redialling is a peer of which each call has a connection.
func redialling(name string, p Peer) Peer {
	dial := p.Dial
	p.Name = name
	p.Dial = func(_ context.Context, addr string, z Sizes) (Conn, error) {
		return redialConn{func(ctx context.Context) (Conn, error) { return dial(ctx, addr, z) }}, nil
	}
	return p
}

// redialConn dials for each call.
type redialConn struct {
	dial func(context.Context) (Conn, error)
}

func (c redialConn) NewCall() Call {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		conn, err := c.dial(ctx)
		if err != nil {
			return nil, err
		}
		response, err := conn.NewCall()(ctx, request)
		return response, errors.Join(err, conn.Close())
	}
}

func (c redialConn) Close() error { return nil }

func erpcPlain() erpc.Config { return erpc.Config{} }

// erpcDials is this library with a configuration for each Client and the server.
func erpcDials(config func() erpc.Config) Peer {
	with := func(z Sizes) erpc.Config {
		cfg := config()
		cfg.MaxMessage = z.limit()
		return cfg
	}
	p := erpcPeer
	p.Listen = func(z Sizes) (Server, error) { return serveERPC("127.0.0.1:0", z, with(z)) }
	p.Dial = func(ctx context.Context, addr string, z Sizes) (Conn, error) {
		return clientERPC(ctx, addr, with(z))
	}
	p.DialAll, p.DialPool = nil, nil
	return p
}

// erpcDialsOnLoop is erpcDials with one Loop, which lives as long as the process.
func erpcDialsOnLoop(config func() erpc.Config) Peer {
	p := erpcDials(config)
	loop := sync.OnceValues(func() (*erpc.Loop, error) { return newLoop(config()) })
	p.Dial = func(ctx context.Context, addr string, _ Sizes) (Conn, error) {
		l, err := loop()
		if err != nil {
			return nil, err
		}
		c, err := l.Dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		return erpcConn{c}, nil
	}
	return p
}

// erpcDialsOnNewLoop is erpcDials with a Loop for each Client.
func erpcDialsOnNewLoop(config func() erpc.Config) Peer {
	p := erpcDials(config)
	p.Dial = func(ctx context.Context, addr string, z Sizes) (Conn, error) {
		list, err := dialLoopWith(ctx, []string{addr}, config())
		if err != nil {
			return nil, err
		}
		return list[0], nil
	}
	return p
}

func newLoop(cfg erpc.Config) (*erpc.Loop, error) {
	local, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return nil, err
	}
	return erpc.NewLoop(local, cfg)
}
