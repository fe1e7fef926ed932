// Package helloworldpb is what protoc-gen-go and protoc-gen-go-grpc make of helloworld.proto. The
// command below makes it again; it needs protoc.
//
//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative helloworld.proto
package helloworldpb
