package echo

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var grpcPeer = Peer{
	Name: "grpc-go", Module: "google.golang.org/grpc", Transport: "tcp", Listen: listenGRPC,
	Dial:     dialGRPC,
	DialPool: dialGRPCPool, ListenAt: listenGRPCAt,
}

const (
	service = "bench.Echo"
	method  = "/" + service + "/Echo"
)

type grpcServer struct {
	*grpc.Server
	listener net.Listener
}

func (s *grpcServer) Addr() string { return s.listener.Addr().String() }
func (s *grpcServer) Serve() error { return s.Server.Serve(s.listener) }
func (s *grpcServer) Close() error { s.Stop(); return nil }

func listenGRPC(z Sizes) (Server, error) { return listenGRPCAt("127.0.0.1:0", z) }

func listenGRPCAt(addr string, z Sizes) (Server, error) {
	return serveGRPC(addr, z, insecure.NewCredentials())
}

func serveGRPC(addr string, z Sizes, creds credentials.TransportCredentials) (Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	answer := newReplier(z)
	// The handler that generated code would contain.
	handler := func(_ any, _ context.Context, decode func(any) error,
		_ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.BytesValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		in.Value = answer.reply(in.Value)
		return in, nil
	}
	s := grpc.NewServer(grpc.Creds(creds), grpc.MaxRecvMsgSize(z.limit()),
		grpc.MaxSendMsgSize(z.limit()))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: handler}},
	}, struct{}{})
	return &grpcServer{Server: s, listener: l}, nil
}

type grpcConn struct{ *grpc.ClientConn }

func dialGRPC(_ context.Context, addr string, z Sizes) (Conn, error) {
	return clientGRPC(addr, z, insecure.NewCredentials())
}

func clientGRPC(addr string, z Sizes, creds credentials.TransportCredentials) (Conn, error) {
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(z.limit()),
			grpc.MaxCallSendMsgSize(z.limit())))
	if err != nil {
		return nil, err
	}
	return grpcConn{c}, nil
}

func (c grpcConn) NewCall() Call {
	in, out := new(wrapperspb.BytesValue), new(wrapperspb.BytesValue)
	return func(ctx context.Context, request []byte) ([]byte, error) {
		in.Value = request
		err := c.Invoke(ctx, method, in, out)
		return out.GetValue(), err
	}
}
