package echo

import (
	"context"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// connectPeer speaks the Connect protocol over HTTP/2 without TLS.
var connectPeer = Peer{
	Name: "connect-go", Module: "connectrpc.com/connect", Transport: "tcp", Listen: listenConnect,
	Dial: dialConnect,
}

// http2 allows HTTP/2 without TLS and nothing else.
func http2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

type connectServer struct {
	http.Server
	listener net.Listener
}

func (s *connectServer) Addr() string { return s.listener.Addr().String() }
func (s *connectServer) Serve() error { return s.Server.Serve(s.listener) }

func listenConnect(z Sizes) (Server, error) {
	l, err := listenTCP()
	if err != nil {
		return nil, err
	}
	answer := newReplier(z)
	mux := http.NewServeMux()
	mux.Handle(method, connect.NewUnaryHandler(method,
		func(_ context.Context,
			r *connect.Request[wrapperspb.BytesValue]) (*connect.Response[wrapperspb.BytesValue], error) {
			return connect.NewResponse(wrapperspb.Bytes(answer.reply(r.Msg.Value))), nil
		}))
	return &connectServer{listener: l, Server: http.Server{Handler: mux, Protocols: http2()}}, nil
}

type connectConn struct {
	transport *http.Transport
	client    *connect.Client[wrapperspb.BytesValue, wrapperspb.BytesValue]
}

func dialConnect(_ context.Context, addr string, _ Sizes) (Conn, error) {
	t := &http.Transport{Protocols: http2()}
	// Without this clients ask for compressed responses, and no other peer does.
	plain := connect.WithAcceptCompression("gzip", nil, nil)
	return &connectConn{transport: t,
		client: connect.NewClient[wrapperspb.BytesValue, wrapperspb.BytesValue](
			&http.Client{Transport: t}, "http://"+addr+method, plain)}, nil
}

func (c *connectConn) NewCall() Call {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		r, err := c.client.CallUnary(ctx, connect.NewRequest(wrapperspb.Bytes(request)))
		if err != nil {
			return nil, err
		}
		return r.Msg.Value, nil
	}
}

func (c *connectConn) Close() error { c.transport.CloseIdleConnections(); return nil }
