package grpcerpc_test

import (
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

func init() {
	balancer.Register(base.NewBalancerBuilder("refusing", refusing{}, base.Config{}))
}

// refusing makes pickers that end calls with a status that is for servers alone.
type refusing struct{}

func (refusing) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	return base.NewErrPicker(status.Error(codes.NotFound, "by the picker"))
}

// TestRestrictedCodes: balancers and credentials do not speak for servers (gRFC A54).
func TestRestrictedCodes(t *testing.T) {
	got := make(map[string][]string)
	both(t, new(failing), "", func(t *testing.T, c pb.GreeterClient, r *manual.Resolver, addr string) {
		r.InitialState(at(addr, nil))
		for _, err := range []error{
			status.Error(codes.NotFound, "by the credentials"),
			status.Error(codes.Unavailable, "by the credentials"), errors.New("plain"),
		} {
			_, err = c.SayHello(within(t), &pb.HelloRequest{}, grpc.PerRPCCredentials(token{err: err}))
			got[t.Name()] = append(got[t.Name()], err.Error())
		}
		r.UpdateState(at(addr, r.CC().ParseServiceConfig(
			`{"loadBalancingConfig": [{"refusing": {}}]}`)))
		var err error
		for err == nil { // until the switch
			_, err = c.SayHello(within(t), &pb.HelloRequest{}, grpc.WaitForReady(true))
		}
		got[t.Name()] = append(got[t.Name()], err.Error())
	})
	for i, want := range got["TestRestrictedCodes/grpc-go"] {
		if text := got["TestRestrictedCodes/grpcerpc"][i]; text != want {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}
