package ecosystem

import (
	"context"
	"fmt"
	"testing"

	load "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/channelz/service" // balancers log to channelz then
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds" // registers balancers: outlier detection is its own
	"google.golang.org/protobuf/proto"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// sick fails all calls while it is.
type sick struct{ nameSayer }

func (sick) SayHello(context.Context, *pb.HelloRequest) (*pb.HelloReply, error) {
	return nil, status.Error(codes.Internal, "on purpose")
}

// serveLoad serves a greeter, which reports the load of its server by ORCA.
func serveLoad(t *testing.T, g pb.GreeterServer, load float64) string {
	m := orca.NewServerMetricsRecorder()
	m.SetApplicationUtilization(load)
	m.SetQPS(100)
	return serveAll(t, func(s grpc.ServiceRegistrar) {
		pb.RegisterGreeterServer(s, g)
		if err := orca.Register(s, orca.ServiceOptions{ServerMetricsProvider: m}); err != nil {
			t.Fatal(err)
		}
	})
}

// dial returns a client of servers, by a balancer.
func dial(t *testing.T, balancer string, addrs ...string) pb.GreeterClient {
	t.Helper()
	target := "static:///" + addrs[0]
	for _, a := range addrs[1:] {
		target += "," + a
	}
	cc, err := grpcerpc.NewClient(target, grpcerpc.WithTransport(overUDP),
		grpcerpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [`+balancer+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return pb.NewGreeterClient(cc)
}

// call makes a call, by which a ring is asked for a place of its own.
func call(t *testing.T, client pb.GreeterClient, n int) (string, error) {
	ctx := metadata.AppendToOutgoingContext(within(t), "place", fmt.Sprint(n))
	out, err := client.SayHello(ctx, &pb.HelloRequest{}, grpc.WaitForReady(true))
	return out.GetMessage(), err
}

// outliers is the config of outlier detection that ejects one of two servers.
func outliers(child string) string {
	return `{"outlier_detection_experimental": {"interval": "0.01s", "baseEjectionTime": "1000s",
		"maxEjectionTime": "1000s", "maxEjectionPercent": 50, "failurePercentageEjection": {
		"threshold": 50, "enforcementPercentage": 100, "minimumHosts": 2, "requestVolume": 1},
		"childPolicy": [` + child + `]}}`
}

// weighted is the config of weighted round robin with reports that servers send by themselves.
const weighted = `{"weighted_round_robin": {"enableOobLoadReport": true, "blackoutPeriod": "0s",
	"oobReportingPeriod": "0.1s", "weightUpdatePeriod": "0.1s"}}`

// TestBalancers: grpc-go's balancers call all servers.
func TestBalancers(t *testing.T) {
	a := serveLoad(t, nameSayer{name: "a"}, 0.5)
	b := serveLoad(t, nameSayer{name: "b"}, 0.5)
	for _, balancer := range []string{
		`{"round_robin": {}}`, `{"least_request_experimental": {}}`,
		`{"ring_hash_experimental": {"requestHashHeader": "place"}}`,
		outliers(`{"round_robin": {}}`), outliers(weighted),
		outliers(`{"least_request_experimental": {}}`),
		outliers(`{"ring_hash_experimental": {"requestHashHeader": "place"}}`),
	} {
		client, got := dial(t, balancer, a, b), map[string]int{}
		for n := 0; len(got) < 2 || n < 100; n++ {
			name, err := call(t, client, n)
			if err != nil {
				t.Fatalf("%s: %v", balancer, err)
			}
			got[name]++
		}
	}
}

// TestOutlier: outlier detection takes a server that fails out of the round, and tells channelz of
// that, which is imported.
func TestOutlier(t *testing.T) {
	for _, child := range []string{`{"round_robin": {}}`, weighted} {
		well := serveLoad(t, nameSayer{name: "well"}, 0.5)
		client := dial(t, outliers(child), well, serveLoad(t, sick{}, 0.5))
		for failed, row := false, 0; !failed || row < 20; {
			if _, err := call(t, client, 0); err == nil {
				row++
				continue
			}
			failed, row = true, 0
		}
	}
}

// perCall is the config of weighted round robin with reports in the trailers of calls.
const perCall = `{"weighted_round_robin": {"blackoutPeriod": "0s", "weightUpdatePeriod": "0.1s"}}`

// reporter reports its load in the trailer of each call.
type reporter struct {
	nameSayer
	load float64
}

func (r reporter) SayHello(ctx context.Context, in *pb.HelloRequest) (*pb.HelloReply, error) {
	report := &load.OrcaLoadReport{ApplicationUtilization: r.load, RpsFractional: 100}
	text, err := proto.Marshal(report)
	if err != nil {
		return nil, err
	}
	trailer := metadata.Pairs("endpoint-load-metrics-bin", string(text))
	if err := grpc.SetTrailer(ctx, trailer); err != nil {
		return nil, err
	}
	return r.nameSayer.SayHello(ctx, in)
}

// TestWeights: weighted round robin learns by ORCA which server has less to do, and calls it more
// often.
func TestWeights(t *testing.T) {
	idle, busy := nameSayer{name: "idle"}, nameSayer{name: "busy"}
	t.Run("out of band", func(t *testing.T) {
		weigh(t, outliers(weighted), serveLoad(t, idle, 0.1), serveLoad(t, busy, 0.9))
	})
	t.Run("per call", func(t *testing.T) {
		weigh(t, perCall, serve(t, reporter{idle, 0.1}), serve(t, reporter{busy, 0.9}))
	})
}

// weigh calls until the idle one of two servers answers five times as often.
func weigh(t *testing.T, balancer, idle, busy string) {
	client := dial(t, balancer, idle, busy)
	for got := map[string]int{}; got["idle"] < 5*got["busy"] || got["idle"]+got["busy"] < 60; {
		if len(got) == 2 && got["idle"]+got["busy"] >= 60 {
			clear(got) // the reports have not come yet
		}
		name, err := call(t, client, 0)
		if err != nil {
			t.Fatal(err)
		}
		got[name]++
	}
}
