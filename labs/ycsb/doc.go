// Command ycsb runs YCSB's workloads A to F on this project's stores and on pebble, over grpcerpc
// and over other RPC libraries (package peer). It is a module of its own.
//
//	ycsb serve -store index -peer erpc-udp -addr 127.0.0.1:31850
//	ycsb load -peer erpc-udp -addr 127.0.0.1:31850 -records 20000
//	ycsb run -peer erpc-udp -addr 127.0.0.1:31850 -records 20000 -workload b -for 10s
//	ycsb run -store index -peer grpc-tcp -workload e -clients 16      # with a server of its own
//	ycsb compare                                                      # all peers in turns, a table
//
// run prints progress to standard error, and the result as a table or with -json as an object; -hdr
// writes a log of HdrHistograms, an interval a second for each operation. It ends with status 1 if
// anything was missing, wrong, stale or failed. All that was measured is printed before.
//
// compare starts a server process for each measurement, so that each begins with the same records.
// The peers take turns in each round; ratios to grpc-go over TCP are formed within a round; the
// table has medians and ranges. CPU time is that of both processes.
package main
