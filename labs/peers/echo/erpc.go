package echo

import (
	"context"
	"errors"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// erpcPeer is this library's API for goroutines, Client and Server, used as the other
// peers are. Its event loop is faster; bin/erpc measures that.
var erpcPeer = Peer{
	Name: "erpc-client", Module: "github.com/userspace-rpc/erpc", Transport: "udp", Listen: listenERPC,
	Dial:    dialERPC,
	DialAll: dialLoop, DialPool: dialERPCPool, ListenAt: listenERPCAt,
}

const echoType = 1

func erpcConfig(z Sizes) erpc.Config { return erpc.Config{MaxMessage: z.limit()} }

type erpcServer struct {
	*erpc.Server
	conn *udp.Conn
}

func listenERPC(z Sizes) (Server, error) { return listenERPCAt("127.0.0.1:0", z) }

func listenERPCAt(addr string, z Sizes) (Server, error) {
	return serveERPC(addr, z, erpcConfig(z))
}

func serveERPC(addr string, z Sizes, cfg erpc.Config) (Server, error) {
	return serveERPCBy(addr, z, cfg, (*erpc.Server).Handle)
}

// serveERPCBy is serveERPC with a handler that handle, a method of the Server, registers.
func serveERPCBy(addr string, z Sizes, cfg erpc.Config,
	handle func(*erpc.Server, uint8, erpc.Func) error) (Server, error) {
	s, err := erpc.NewServer(cfg)
	if err != nil {
		return nil, err
	}
	answer := newReplier(z)
	err = handle(s, echoType, func(_ context.Context, request []byte) ([]byte, error) {
		return answer.reply(request), nil
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	conn, err := udp.Listen(addr, udp.Config{})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &erpcServer{Server: s, conn: conn}, nil
}

func (s *erpcServer) Addr() string { return s.conn.LocalAddr().String() }
func (s *erpcServer) Serve() error { return s.Server.Serve(s.conn) }

type erpcConn struct{ *erpc.Client }

func dialERPC(ctx context.Context, addr string, z Sizes) (Conn, error) {
	return clientERPC(ctx, addr, erpcConfig(z))
}

func clientERPC(ctx context.Context, addr string, cfg erpc.Config) (Conn, error) {
	local, err := listenNear(addr)
	if err != nil {
		return nil, err
	}
	c, err := erpc.Dial(ctx, local, addr, cfg)
	if err != nil {
		return nil, err
	}
	return erpcConn{c}, nil
}

// listenNear opens a socket for packets to addr.
func listenNear(addr string) (*udp.Conn, error) {
	from, err := near(addr)
	if err != nil {
		return nil, err
	}
	return udp.Listen(from, udp.Config{})
}

// Sent implements Counted.
func (c erpcConn) Sent() (packets, calls uint64) { return sent(c.Stats()) }

// Sent implements Counted.
func (s *erpcServer) Sent() (packets, calls uint64) { return sent(s.Stats()...) }

func sent(list ...erpc.Stats) (packets, calls uint64) {
	for _, s := range list {
		packets += s.Transport.TxPackets
		calls += s.Transport.TxCalls
	}
	return packets, calls
}

// erpcReusePeer is erpcPeer with memory that is used again at the server too: HandleBorrowed.
var erpcReusePeer = Peer{
	Name: "erpc-reuse", Module: "github.com/userspace-rpc/erpc", Transport: "udp", Dial: dialERPC,
	Listen:   func(z Sizes) (Server, error) { return listenReuse("127.0.0.1:0", z) },
	ListenAt: listenReuse,
}

func listenReuse(addr string, z Sizes) (Server, error) {
	return serveERPCBy(addr, z, erpcConfig(z), (*erpc.Server).HandleBorrowed)
}

// erpcCallPeer is erpcPeer by Client.Call: each response is memory of its own.
var erpcCallPeer = Peer{
	Name: "erpc-call", Module: "github.com/userspace-rpc/erpc", Transport: "udp",
	Listen: listenERPC, ListenAt: listenERPCAt,
	Dial: func(ctx context.Context, addr string, z Sizes) (Conn, error) {
		c, err := clientERPC(ctx, addr, erpcConfig(z))
		if err != nil {
			return nil, err
		}
		return callConn{c.(erpcConn)}, nil
	},
}

type callConn struct{ erpcConn }

func (c callConn) NewCall() Call {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		return c.Call(ctx, echoType, request)
	}
}

// loopConn is a Client of a Loop that ends with its last one.
type loopConn struct {
	erpcConn
	loop *erpc.Loop
	left *int // of the Loop's Clients
}

// dialLoop makes Clients that share a Loop.
func dialLoop(ctx context.Context, addrs []string, z Sizes) ([]Conn, error) {
	return dialLoopWith(ctx, addrs, erpcConfig(z))
}

func dialLoopWith(ctx context.Context, addrs []string, cfg erpc.Config) (list []Conn, err error) {
	loop, err := newLoop(cfg)
	if err != nil {
		return nil, err
	}
	left := new(int)
	for _, addr := range addrs {
		c, err := loop.Dial(ctx, addr)
		if err != nil {
			return nil, errors.Join(err, loop.Close())
		}
		*left++
		list = append(list, &loopConn{erpcConn{c}, loop, left})
	}
	if len(list) == 0 {
		return nil, loop.Close()
	}
	return list, nil
}

// Close ends the Client, and the Loop with the last one. It is for one goroutine, as those of the
// other Clients.
func (c *loopConn) Close() error {
	err := c.Client.Close()
	if *c.left--; *c.left == 0 {
		err = errors.Join(err, c.loop.Close())
	}
	return err
}

func (c erpcConn) NewCall() Call {
	var buf []byte
	return func(ctx context.Context, request []byte) (response []byte, err error) {
		response, err = c.AppendCall(ctx, buf[:0], echoType, request)
		if err == nil {
			buf = response
		}
		return response, err
	}
}
