// Package ecosystem has tests of grpcerpc with programs and libraries for grpc-go that other
// modules have: otelgrpc's stats handlers, and the library of the command grpcurl. It is a module
// of its own, so that nobody else needs theirs.
package ecosystem
