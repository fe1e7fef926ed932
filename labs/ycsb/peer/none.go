package peer

import (
	"context"
	"fmt"
	"path"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	pb "github.com/userspace-rpc/erpc/labs/ycsb/ycsbpb"
)

// None names calls without a transport, within one process: what is left if carrying messages
// costs nothing.
const None = "none"

// Direct returns a Conn of None. Messages are encoded and decoded as with every other peer.
func Direct(service *store.Service) *Conn {
	c := &Conn{close: func() error { return nil }}
	c.DB = &db{stub: pb.NewStoreClient(direct{service})}
	return c
}

// direct is a connection that calls the service itself.
type direct struct{ service *store.Service }

// Invoke implements grpc.ClientConnInterface.
func (d direct) Invoke(ctx context.Context, method string, args, reply any,
	_ ...grpc.CallOption) error {
	in, err := proto.Marshal(args.(proto.Message))
	if err != nil {
		return err
	}
	decode := func(m any) error { return proto.Unmarshal(in, m.(proto.Message)) }
	for i := range pb.Store_ServiceDesc.Methods {
		m := &pb.Store_ServiceDesc.Methods[i]
		if m.MethodName != path.Base(method) {
			continue
		}
		res, err := m.Handler(d.service, ctx, decode, nil)
		if err != nil {
			return err
		}
		out, err := proto.Marshal(res.(proto.Message))
		if err != nil {
			return err
		}
		return proto.Unmarshal(out, reply.(proto.Message))
	}
	return status.Error(codes.Unimplemented, method)
}

// NewStream implements grpc.ClientConnInterface. The service has no streams.
func (direct) NewStream(context.Context, *grpc.StreamDesc, string,
	...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, fmt.Errorf("peer: %s has no streams", None)
}
