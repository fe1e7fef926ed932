// Command raftstore measures the replicated store of raft-example over grpc-go: the same
// replicas, state machine and log, driven by grpc-go's goroutines. Clients call PUT as a
// unary RPC; between replicas each pair has a stream in each direction, which is what
// is fastest in gRPC. They may use all cores, and are measured twice: all in one process
// with the client, and each replica a process of its own, as they are deployed. Beside it, in
// the same run, it measures the store over this library.
package main
