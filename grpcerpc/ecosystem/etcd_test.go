package ecosystem

import (
	"net/url"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/naming/endpoints"
	"go.etcd.io/etcd/client/v3/naming/resolver"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/userspace-rpc/erpc/grpcerpc"
	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// etcd runs an etcd in this process until the test ends, and returns it and a client of it.
func etcd(t testing.TB) (*embed.Etcd, *clientv3.Client) {
	t.Helper()
	t.Setenv("ETCD_CLIENT_DEBUG", "fatal") // its clients log each error of the tests
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.LogOutputs = t.TempDir(), "fatal", []string{"stderr"}
	any := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = any, any
	cfg.UnsafeNoFsync = true // the disk is not what is tested
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-within(t).Done():
		t.Fatal("etcd does not begin")
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Clients[0].Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return e, c
}

// TestEtcd: a ClientConn follows what etcd's naming resolver says: both servers are called in turn,
// and only the other one when one has left.
func TestEtcd(t *testing.T) {
	ctx := within(t)
	_, c := etcd(t)
	em, err := endpoints.NewManager(c, "greeters")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		e := endpoints.Endpoint{Addr: serve(t, nameSayer{name: name})}
		if err := em.AddEndpoint(ctx, "greeters/"+name, e); err != nil {
			t.Fatal(err)
		}
	}
	builder, err := resolver.NewBuilder(c)
	if err != nil {
		t.Fatal(err)
	}
	cc, err := grpcerpc.NewClient("etcd:///greeters", grpcerpc.WithResolvers(builder),
		grpcerpc.WithTransport(overUDP),
		grpcerpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cc.Close() }()
	client := pb.NewGreeterClient(cc)
	until := func(what string, done func(seen map[string]int) bool) {
		t.Helper()
		for seen := map[string]int{}; !done(seen); {
			out, err := client.SayHello(ctx, &pb.HelloRequest{})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if seen[out.Message]++; out.Message == "a" {
				seen["b in a row"] = 0
			} else {
				seen["b in a row"]++
			}
		}
	}
	until("both servers", func(seen map[string]int) bool { return seen["a"] > 0 && seen["b"] > 0 })
	if err := em.DeleteEndpoint(ctx, "greeters/a"); err != nil {
		t.Fatal(err)
	}
	until("one of them", func(seen map[string]int) bool { return seen["b in a row"] > 100 })
}
