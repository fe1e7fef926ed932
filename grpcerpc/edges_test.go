package grpcerpc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// silentGreeter ends streams without an answer.
type silentGreeter struct{ pb.UnimplementedGreeterServer }

func (silentGreeter) Collect(s grpc.ClientStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	for {
		if _, err := s.Recv(); err != nil {
			return nil
		}
	}
}

func (silentGreeter) Chat(s grpc.BidiStreamingServer[pb.HelloRequest, pb.HelloReply]) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// TestStreamEdges: streams end for applications as those of grpc-go do.
func TestStreamEdges(t *testing.T) {
	type result struct {
		code codes.Code
		text string
	}
	told := func(err error) result {
		if errors.Is(err, io.EOF) {
			return result{codes.OK, "EOF"}
		}
		return result{status.Code(err), status.Convert(err).Message()}
	}
	got := make(map[string][]result)
	both(t, silentGreeter{}, "",
		func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, addr string) {
			r.InitialState(at(addr, nil))
			note := func(err error) { got[t.Name()] = append(got[t.Name()], told(err)) }
			collect, err := c.Collect(within(t))
			is(t, "begin", err, codes.OK)
			is(t, "send", collect.Send(&pb.HelloRequest{}), codes.OK)
			if p, ok := peer.FromContext(collect.Context()); !ok || p.Addr.String() != addr {
				t.Errorf("the peer in the context: %v", p)
			}
			_, err = collect.CloseAndRecv()
			note(err)
			_, err = collect.CloseAndRecv()
			note(err)

			ctx, cancel := context.WithCancel(within(t))
			chat, err := c.Chat(ctx)
			is(t, "begin", err, codes.OK)
			cancel()
			md, err := chat.Header()
			note(err)
			if md != nil {
				t.Errorf("a header: %v", md)
			}
			_, err = chat.Recv()
			note(err)

			s, err := c.SayHelloAgain(within(t), &pb.HelloRequest{})
			is(t, "begin", err, codes.OK)
			_, err = s.Recv()
			note(err)
		})
	want := got["TestStreamEdges/grpc-go"]
	for i, w := range want {
		if g := got["TestStreamEdges/grpcerpc"][i]; g != w {
			t.Errorf("%d: %v, grpc-go %v", i, g, w)
		}
	}
}
