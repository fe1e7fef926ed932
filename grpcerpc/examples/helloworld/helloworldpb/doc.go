// Package helloworldpb is what protoc-gen-go and protoc-gen-go-grpc make of helloworld.proto. The
// command below makes it again; it needs protoc.
//
//go:generate protoc --go_out=paths=source_relative:. helloworld.proto
//go:generate protoc --go-grpc_out=paths=source_relative:. helloworld.proto
package helloworldpb
