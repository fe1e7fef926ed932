// Package stubs has one service of gRPC over grpc-go and over grpcerpc, and loads for its client:
// what a row measures, in a server and a client process. Both libraries have their default
// settings, but for limits of message sizes.
package stubs
