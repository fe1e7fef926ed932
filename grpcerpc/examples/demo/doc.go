// Command demo measures the same stubs and the same service over grpc-go on TCP and over grpcerpc,
// on UDP and in shared memory, and prints a table. Server and clients are two processes of this
// machine. The kinds take turns, and each figure is the median of the rounds.
package main
