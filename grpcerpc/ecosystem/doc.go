// Package ecosystem has tests of grpcerpc with programs and libraries for grpc-go that other
// modules have: otelgrpc's stats handlers, the library of the command grpcurl, etcd's client and
// its services; and with grpc-go's balancers that come with xDS. It is a module of its own, so that
// nobody else needs theirs.
package ecosystem
