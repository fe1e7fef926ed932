package echo

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"storj.io/drpc"
	"storj.io/drpc/drpcconn"
	"storj.io/drpc/drpcmanager"
	"storj.io/drpc/drpcmux"
	"storj.io/drpc/drpcserver"
	"storj.io/drpc/drpcwire"
)

// drpcPeer needs a connection for each RPC in flight: that is its design.
var drpcPeer = Peer{
	Name: "drpc", Module: "storj.io/drpc", Transport: "tcp", ConnPerCall: true, Listen: listenDRPC,
	Dial: dialDRPC,
}

// protoEncoding is the encoding of generated code.
type protoEncoding struct{}

func (protoEncoding) Marshal(m drpc.Message) ([]byte,
	error) {
	return proto.Marshal(m.(proto.Message))
}

func (protoEncoding) MarshalAppend(b []byte, m drpc.Message) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m.(proto.Message))
}

func (protoEncoding) Unmarshal(b []byte, m drpc.Message) error {
	return proto.Unmarshal(b, m.(proto.Message))
}

// drpcEcho is the service and its description.
type drpcEcho struct{ answer replier }

// Echo is the method.
func (e *drpcEcho) Echo(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue,
	error) {
	in.Value = e.answer.reply(in.Value)
	return in, nil
}

// NumMethods implements drpc.Description.
func (*drpcEcho) NumMethods() int { return 1 }

// Method implements drpc.Description.
func (*drpcEcho) Method(n int) (string, drpc.Encoding, drpc.Receiver, any, bool) {
	receive := func(srv any, ctx context.Context, in1, _ any) (drpc.Message, error) {
		in, ok := in1.(*wrapperspb.BytesValue)
		if !ok {
			return nil, fmt.Errorf("message of type %T", in1)
		}
		return srv.(*drpcEcho).Echo(ctx, in)
	}
	return method, protoEncoding{}, receive, (*drpcEcho).Echo, n == 0
}

// drpcOptions lets large messages through.
func drpcOptions(z Sizes) drpcmanager.Options {
	return drpcmanager.Options{Reader: drpcwire.ReaderOptions{MaximumBufferSize: z.limit()}}
}

type drpcServer struct {
	*drpcserver.Server
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
}

func listenDRPC(z Sizes) (Server, error) {
	e := &drpcEcho{answer: newReplier(z)}
	mux := drpcmux.New()
	if err := mux.Register(e, e); err != nil {
		return nil, err
	}
	l, err := listenTCP()
	if err != nil {
		return nil, err
	}
	s := &drpcServer{listener: l,
		Server: drpcserver.NewWithOptions(mux, drpcserver.Options{Manager: drpcOptions(z)})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func (s *drpcServer) Addr() string { return s.listener.Addr().String() }
func (s *drpcServer) Serve() error { return s.Server.Serve(s.ctx, s.listener) }
func (s *drpcServer) Close() error { s.cancel(); return nil }

type drpcConn struct{ *drpcconn.Conn }

func dialDRPC(ctx context.Context, addr string, z Sizes) (Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return drpcConn{drpcconn.NewWithOptions(c, drpcconn.Options{Manager: drpcOptions(z)})}, nil
}

func (c drpcConn) NewCall() Call {
	in, out := new(wrapperspb.BytesValue), new(wrapperspb.BytesValue)
	return func(ctx context.Context, request []byte) ([]byte, error) {
		in.Value = request
		err := c.Invoke(ctx, method, protoEncoding{}, in, out)
		return out.GetValue(), err
	}
}
