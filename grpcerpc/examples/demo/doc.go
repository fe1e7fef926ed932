// Command demo measures the same stubs and the same service over grpc-go on TCP and over grpcerpc,
// on UDP and in shared memory, and prints a table. One call in flight is also measured over grpc-go
// on a unix socket, which shared memory is compared with. Each kind has a server and a client of
// its own, two processes of this machine, as an application would have them: processes with several
// event loops share processors otherwise than those with one. The kinds take turns, and each figure
// is the median of the rounds.
package main
