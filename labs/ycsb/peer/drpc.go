package peer

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"storj.io/drpc"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcerr"
	"storj.io/drpc/drpcmanager"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcserver"
	"storj.io/drpc/drpcwire"

	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	pb "github.com/userspace-rpc/erpc/labs/ycsb/ycsbpb"
)

// protoEncoding encodes protobuf messages as the code of drpc's generator does.
type protoEncoding struct{}

func (protoEncoding) Marshal(m drpc.Message) ([]byte, error) {
	return proto.Marshal(m.(proto.Message))
}

func (protoEncoding) MarshalAppend(b []byte, m drpc.Message) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m.(proto.Message))
}

func (protoEncoding) Unmarshal(b []byte, m drpc.Message) error {
	return proto.Unmarshal(b, m.(proto.Message))
}

// method makes a description of a method of the service.
func method[In any, Out drpc.Message](
	fn func(*store.Service, context.Context, *In) (Out, error),
) drpc.Receiver {
	return func(srv any, ctx context.Context, in, _ any) (drpc.Message, error) {
		arg, ok := in.(*In)
		if !ok {
			return nil, fmt.Errorf("peer: a message of type %T", in)
		}
		out, err := fn(srv.(*store.Service), ctx, arg)
		if err != nil {
			return nil, drpcerr.WithCode(err, uint64(status.Code(err)))
		}
		return out, nil
	}
}

// description is the service for drpc.
type description struct{}

// NumMethods implements drpc.Description.
func (description) NumMethods() int { return 4 }

// Method implements drpc.Description.
func (description) Method(n int) (string, drpc.Encoding, drpc.Receiver, any, bool) {
	e := protoEncoding{}
	switch n {
	case 0:
		return pb.Store_Read_FullMethodName, e, method((*store.Service).Read), (*store.Service).Read, true
	case 1:
		return pb.Store_Update_FullMethodName, e, method((*store.Service).Update),
			(*store.Service).Update, true
	case 2:
		return pb.Store_Insert_FullMethodName, e, method((*store.Service).Insert),
			(*store.Service).Insert, true
	case 3:
		return pb.Store_Scan_FullMethodName, e, method((*store.Service).Scan), (*store.Service).Scan, true
	}
	return "", nil, nil, nil, false
}

// drpcOptions lets large messages through.
func drpcOptions() drpcmanager.Options {
	return drpcmanager.Options{Reader: drpcwire.ReaderOptions{MaximumBufferSize: maxMessage}}
}

func serveDRPC(l net.Listener, service *store.Service) (*Server, error) {
	mux := drpcmux.New()
	if err := mux.Register(service, description{}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := drpcserver.NewWithOptions(mux, drpcserver.Options{Manager: drpcOptions()})
	ctx, cancel := context.WithCancel(context.Background())
	return &Server{
		Addr: l.Addr().String(), serve: func() error { return s.Serve(ctx, l) },
		close: func() error { cancel(); return nil },
	}, nil
}

// drpcClient makes a grpc.ClientConnInterface of a connection, for unary calls.
type drpcClient struct{ *drpcconn.Conn }

func dialDRPC(ctx context.Context, addr string) (drpcClient, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return drpcClient{}, err
	}
	return drpcClient{drpcconn.NewWithOptions(c, drpcconn.Options{Manager: drpcOptions()})}, nil
}

// Invoke implements grpc.ClientConnInterface.
func (c drpcClient) Invoke(
	ctx context.Context, method string, in, out any, _ ...grpc.CallOption,
) error {
	err := c.Conn.Invoke(ctx, method, protoEncoding{}, in, out)
	if n := drpcerr.Code(err); n != 0 {
		return status.Error(codes.Code(n), err.Error())
	}
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (c drpcClient) NewStream(
	context.Context, *grpc.StreamDesc, string, ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "peer: streams over drpc")
}
