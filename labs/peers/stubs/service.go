package stubs

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// bytesValue is the message of all methods.
type bytesValue = wrapperspb.BytesValue

const prefix = "/bench.Stubs/"

// Methods: Echo answers with its request; Block answers when its client gives up; Chat echoes
// messages; Down sends its request until the client ends; Up answers with how many messages came.
const (
	echoMethod  = prefix + "Echo"
	blockMethod = prefix + "Block"
)

var (
	chatDesc = grpc.StreamDesc{StreamName: "Chat", Handler: chat, ServerStreams: true,
		ClientStreams: true}
	downDesc = grpc.StreamDesc{StreamName: "Down", Handler: down, ServerStreams: true}
	upDesc   = grpc.StreamDesc{StreamName: "Up", Handler: up, ClientStreams: true}
)

var service = grpc.ServiceDesc{
	ServiceName: "bench.Stubs", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		{MethodName: "Echo", Handler: unary(func(context.Context) {})},
		{MethodName: "Block", Handler: unary(func(ctx context.Context) { <-ctx.Done() })},
	},
	Streams: []grpc.StreamDesc{chatDesc, downDesc, upDesc},
}

// unary returns the handler that generated code would contain, which echoes after work.
func unary(work func(context.Context)) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
	) (any, error) {
		in := new(bytesValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		work(ctx)
		return in, nil
	}
}

func chat(_ any, s grpc.ServerStream) error {
	for {
		m := new(bytesValue)
		if err := s.RecvMsg(m); err != nil {
			return noEOF(err)
		}
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

func down(_ any, s grpc.ServerStream) error {
	m := new(bytesValue)
	if err := s.RecvMsg(m); err != nil {
		return err
	}
	for {
		if err := s.SendMsg(m); err != nil {
			return err
		}
	}
}

func up(_ any, s grpc.ServerStream) error {
	n := uint64(0)
	for {
		m := new(bytesValue)
		if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
			return s.SendMsg(&bytesValue{Value: binary.LittleEndian.AppendUint64(nil, n)})
		} else if err != nil {
			return err
		}
		n++
	}
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
