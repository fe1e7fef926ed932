package echo

import (
	"context"
	"net"
	"net/rpc"
)

// netRPCPeer is the standard library's, with its gob encoding.
var netRPCPeer = Peer{Name: "net/rpc", Transport: "tcp", Listen: listenNetRPC, Dial: dialNetRPC}

type netRPCEcho struct{ answer replier }

// Echo is the method.
func (e *netRPCEcho) Echo(request []byte, response *[]byte) error {
	*response = e.answer.reply(request)
	return nil
}

type netRPCServer struct {
	*rpc.Server
	listener net.Listener
}

func listenNetRPC(z Sizes) (Server, error) {
	s := rpc.NewServer()
	if err := s.RegisterName("Echo", &netRPCEcho{answer: newReplier(z)}); err != nil {
		return nil, err
	}
	l, err := listenTCP()
	if err != nil {
		return nil, err
	}
	return &netRPCServer{Server: s, listener: l}, nil
}

func (s *netRPCServer) Addr() string { return s.listener.Addr().String() }
func (s *netRPCServer) Close() error { return s.listener.Close() }

func (s *netRPCServer) Serve() error {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return err
		}
		go s.ServeConn(c)
	}
}

type netRPCConn struct{ *rpc.Client }

func dialNetRPC(ctx context.Context, addr string, _ Sizes) (Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return netRPCConn{rpc.NewClient(c)}, nil
}

func (c netRPCConn) NewCall() Call {
	var out []byte
	done := make(chan *rpc.Call, 1)
	return func(ctx context.Context, request []byte) ([]byte, error) {
		call := c.Go("Echo.Echo", request, &out, done)
		select {
		case <-done:
			return out, call.Error
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
