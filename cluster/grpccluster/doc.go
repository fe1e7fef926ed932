// Package grpccluster gives the servers of a cluster.Source to gRPC: a resolver.Builder for
// grpcerpc and for grpc-go alike.
//
//	builder := grpccluster.NewBuilder(func(service string) (cluster.Source, error) {
//		return etcd.NewSource(etcdClient, etcd.Config{Service: service, Cluster: "prod"})
//	}, cluster.Config{Zone: "a"})
//	cc, err := grpcerpc.NewClient("cluster:///web", grpcerpc.WithResolvers(builder),
//		grpcerpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`))
//
// A balancer of gRPC knows no spares: it has the servers of the client's zone as long as the view
// has any, and those of all zones then.
//
// With TLS gRPC demands the target's authority of each server: one name, which all of the service
// have. The identity of an entry is not demanded in place of it: whoever writes entries would
// choose that.
//
// # Map
//
//	owns       a cluster.Resolver for each ClientConn
//	called by  gRPC's ClientConns
//	never      a view without servers takes those away that a ClientConn has
package grpccluster
