package peer

import (
	"context"
	"errors"
	"net"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	pb "github.com/userspace-rpc/erpc/labs/ycsb/ycsbpb"
)

// http2 allows HTTP/2 without TLS and nothing else.
func http2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// handle makes a handler of a method of the service.
func handle[In, Out any](
	mux *http.ServeMux, name string, fn func(context.Context, *In) (*Out, error),
) {
	mux.Handle(name, connect.NewUnaryHandler(name,
		func(ctx context.Context, r *connect.Request[In]) (*connect.Response[Out], error) {
			out, err := fn(ctx, r.Msg)
			if err != nil {
				return nil, connect.NewError(connect.Code(status.Code(err)), err)
			}
			return connect.NewResponse(out), nil
		}))
}

func serveConnect(l net.Listener, service *store.Service) *Server {
	mux := http.NewServeMux()
	handle(mux, pb.Store_Read_FullMethodName, service.Read)
	handle(mux, pb.Store_Update_FullMethodName, service.Update)
	handle(mux, pb.Store_Insert_FullMethodName, service.Insert)
	handle(mux, pb.Store_Scan_FullMethodName, service.Scan)
	s := &http.Server{Handler: mux, Protocols: http2()}
	return &Server{Addr: l.Addr().String(), serve: func() error { return s.Serve(l) }, close: s.Close}
}

// connectStub is pb.StoreClient over connect-go.
type connectStub struct {
	read   *connect.Client[pb.ReadRequest, pb.ReadReply]
	update *connect.Client[pb.UpdateRequest, pb.UpdateReply]
	insert *connect.Client[pb.InsertRequest, pb.InsertReply]
	scan   *connect.Client[pb.ScanRequest, pb.ScanReply]
}

func dialConnect(addr string) *Conn {
	t := &http.Transport{Protocols: http2()}
	h := &http.Client{Transport: t}
	stub := &connectStub{
		read:   newConnect[pb.ReadRequest, pb.ReadReply](h, addr, pb.Store_Read_FullMethodName),
		update: newConnect[pb.UpdateRequest, pb.UpdateReply](h, addr, pb.Store_Update_FullMethodName),
		insert: newConnect[pb.InsertRequest, pb.InsertReply](h, addr, pb.Store_Insert_FullMethodName),
		scan:   newConnect[pb.ScanRequest, pb.ScanReply](h, addr, pb.Store_Scan_FullMethodName),
	}
	return &Conn{DB: &db{stub: stub}, close: func() error { t.CloseIdleConnections(); return nil }}
}

// newConnect returns the client of a method. It does not ask for compressed answers, as no other
// peer does.
func newConnect[In, Out any](h *http.Client, addr, name string) *connect.Client[In, Out] {
	plain := connect.WithAcceptCompression("gzip", nil, nil)
	return connect.NewClient[In, Out](h, "http://"+addr+name, plain)
}

// call makes a call and gives its error the status that gRPC has for it.
func call[In, Out any](ctx context.Context, c *connect.Client[In, Out], in *In) (*Out, error) {
	r, err := c.CallUnary(ctx, connect.NewRequest(in))
	if err == nil {
		return r.Msg, nil
	}
	if e := (*connect.Error)(nil); errors.As(err, &e) {
		return nil, status.Error(codes.Code(e.Code()), e.Message())
	}
	return nil, err
}

// Read implements pb.StoreClient.
func (s *connectStub) Read(
	ctx context.Context, in *pb.ReadRequest, _ ...grpc.CallOption,
) (*pb.ReadReply, error) {
	return call(ctx, s.read, in)
}

// Update implements pb.StoreClient.
func (s *connectStub) Update(
	ctx context.Context, in *pb.UpdateRequest, _ ...grpc.CallOption,
) (*pb.UpdateReply, error) {
	return call(ctx, s.update, in)
}

// Insert implements pb.StoreClient.
func (s *connectStub) Insert(
	ctx context.Context, in *pb.InsertRequest, _ ...grpc.CallOption,
) (*pb.InsertReply, error) {
	return call(ctx, s.insert, in)
}

// Scan implements pb.StoreClient.
func (s *connectStub) Scan(
	ctx context.Context, in *pb.ScanRequest, _ ...grpc.CallOption,
) (*pb.ScanReply, error) {
	return call(ctx, s.scan, in)
}
