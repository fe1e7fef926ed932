package clustertest

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"go.etcd.io/etcd/client/v3/naming/resolver"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/cluster/etcd"
	"github.com/userspace-rpc/erpc/cluster/grpccluster"
	"github.com/userspace-rpc/erpc/grpcerpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// healthy answers health checks.
type healthy struct {
	healthpb.UnimplementedHealthServer
}

func (healthy) Check(
	context.Context, *healthpb.HealthCheckRequest,
) (*healthpb.HealthCheckResponse, error) {
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

// serveBoth serves gRPC over TCP and over erpc at one address.
func serveBoth(t *testing.T) string {
	t.Helper()
	s := grpcerpc.NewServer()
	healthpb.RegisterHealthServer(s, healthy{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	tr, err := udp.Listen(l.Addr().String(), udp.Config{})
	must(t, err)
	go func() { _ = s.ServeTCP(l) }()
	go func() { _ = s.Serve(tr) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// TestStockClient: grpc-go's client with etcd's resolver finds a server that serves both, and so do
// clients of both kinds with the resolver of this project.
func TestStockClient(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	addr := serveBoth(t)
	register(t, c, config(), cluster.Entry{Addr: addr, Zone: "a",
		Transports: map[string]string{cluster.UDP: addr, cluster.GRPC: addr}})
	stock, err := resolver.NewBuilder(c)
	must(t, err)
	source := func(service string) (cluster.Source, error) {
		cfg := config()
		cfg.Service = service
		return etcd.NewSource(c, cfg)
	}
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	byEtcd, err := grpc.NewClient("etcd:///web", grpc.WithResolvers(stock), plain)
	must(t, err)
	byUs, err := grpc.NewClient("cluster:///web", plain, grpc.WithResolvers(
		grpccluster.NewBuilder(source, cluster.Config{Transport: cluster.GRPC})))
	must(t, err)
	over, err := grpcerpc.NewClient("cluster:///web", grpcerpc.WithResolvers(
		grpccluster.NewBuilder(source, cluster.Config{Zone: "a"})))
	must(t, err)
	for name, cc := range map[string]grpc.ClientConnInterface{
		"grpc-go with etcd's resolver": byEtcd, "grpc-go with ours": byUs, "grpcerpc": over,
	} {
		r, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{},
			grpc.WaitForReady(true))
		if err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	must(t, byEtcd.Close())
	must(t, byUs.Close())
	must(t, over.Close())
}
