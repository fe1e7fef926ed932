// Package cc is the contract between a client session and its congestion control.
//
// The session measures; the [Controller] decides a rate; the session keeps to it
// (pacing, package ratelimit/carousel). A controller does no I/O and reads no
// clock: time is an argument, so the simulator and production run the same code.
//
// # Map
//
//	owns       the contract of a controller: its inputs and its answers
//	called by  sessions, which keep to the rate; cc/timely, cc/dcqcn and cc/swift implement it
//	never      a controller reads a clock, does I/O, or allocates after it was made
//
// # Units
//
// A [Time] is a point on one monotonic clock, and a span of it is a time.Duration.
// Rates are bytes per second on the wire, packet headers included, as float64.
//
// # The common case
//
// Most sessions of a data center are uncongested most of the time (eRPC, section
// 5.2.2). A session starts at link rate without any controller. While it is at link
// rate, answers that carry no congestion mark and whose round trip does not exceed
// the bypass limit are not told to anyone: this is the paper's Timely bypass, one
// comparison per packet. The first answer that does not pass makes the controller.
// So idle and uncongested sessions cost no memory and no call.
//
// # Which is better
//
// Controls are compared in the simulator (package internal/paperlab/simlab): `erpc sim incast`,
// with 20 to 1,000 flows to one node; `erpc sim loss`; `erpc sim workload`, with messages of all
// sizes between all nodes at 80 % load, whose slowdowns stand beside Homa's; and links of 2 Mbit/s
// to 1 Gbit/s (`go test ./erpc/simtest -run TestSlowLinks -slow.all -v`). The best in these is the
// default.
//
// # Implementations
//
// cc/timely follows round-trip times and is the default. cc/dcqcn follows congestion
// marks (ECN), for networks whose switches set them. cc/swift keeps round trips to a target
// that rises with the number of flows.
package cc
