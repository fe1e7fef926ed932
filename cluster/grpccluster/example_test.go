package grpccluster_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/cluster/grpccluster"
)

// known is a source of servers that somebody else knows. Those of packages etcd, dns and kube are
// others.
type known []cluster.Entry

func (k known) Watch(ctx context.Context, update func(cluster.View), _ func(error)) error {
	update(cluster.NewView(k, 0, nil))
	<-ctx.Done()
	return ctx.Err()
}

// A stock client of grpc-go that follows a source. With grpcerpc.NewClient and
// grpcerpc.WithResolvers it is the same, with Transport left out.
func ExampleNewBuilder() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	defer s.Stop()

	at := l.Addr().String()
	builder := grpccluster.NewBuilder(func(service string) (cluster.Source, error) {
		fmt.Println("who serves", service)
		return known{{Addr: at, Transports: map[string]string{cluster.GRPC: at}}}, nil
	}, cluster.Config{Transport: cluster.GRPC})
	cc, err := grpc.NewClient("cluster:///web", grpc.WithResolvers(builder),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cc.Close() }()
	r, err := healthpb.NewHealthClient(cc).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(r.GetStatus(), err)
	// Output:
	// who serves web
	// SERVING <nil>
}
