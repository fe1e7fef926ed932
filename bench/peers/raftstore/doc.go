// Command raftstore measures the replicated store of raft-example over grpc-go: the same
// replicas, state machine and log, driven by grpc-go's goroutines. Clients call PUT as a
// unary RPC; between replicas each pair has a stream in each direction, which is what
// is fastest in gRPC. Replicas and client are one process and may use all cores. Beside it,
// in turns in the same run, it measures the store over this library.
package main
