// Command grpc measures a unary echo of grpc-go between two processes pinned to two
// cores, as a yardstick for `erpc bench`. It is a module of its own, so that the
// library never depends on gRPC.
package main
