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
// # Which is the default
//
// The default has to be the best in each table: of incasts (`erpc sim incast`), of losses
// (`erpc sim loss`), of messages of all sizes between all nodes at a load of 80 % (`erpc sim
// workload`, Homa's W2 to W5) and of slow links (`go test ./erpc/simtest -run TestSlowLinks
// -slow.all -v`). In the simulator, with seed 1:
//
//	                                             timely        swift         none
//	incast of 20, round trip p50, p99, us        33    35      36    40      221   225
//	incast of 50                                 52    52      43    60      557   557
//	incast of 100                                78    92      56    92      1114  1114
//	incast of 1,000                              1901  3539    104   901     3539  3539
//	packets of them lost in 100 ms               40,570        0             133,817
//	1e-3 of the packets lost, Gbit/s             97.0          97.0          97.0
//	slowdown p50, p99 of the least, W2           12.1  240     9.8   311     982   6624
//	  W3, 13 to 56 bytes                         6.0   49      5.0   23      59    489
//	  W4, 252 to 327 bytes                       9.8   59      7.7   23      162   463
//	  W5, 3650 bytes                             5.9   148     5.4   28      68    231
//	  W4, 27 to 49 kB                            6.3   37      5.8   38      19    64
//	  W5, 72 to 172 kB                           5.5   38      5.2   91      8.8   39
//	least part of 2 to 1000 Mbit/s used,
//	1, 5, 20, 40 clients, 1 and 10 ms each way   0.85          0.83          0.85
//	the same, 20 us each way                     0.44          0.22
//
// The 0.44 is a session alone whose round trip is between two thresholds, see cc/timely.
//
// Swift is better for incasts of many and for short messages beside long ones, and loses no packet
// to a thousand flows. It is not the default: with W5 one message of a hundred of 10 to 200 kB
// takes two to three times as long as with Timely. (Steps of 0.3 and 1 packet in a round trip in
// place of a tenth, half of the scaling by flows, and a fresh start of sessions that had rested
// changed nothing of that; a rise by parts of the window doubled the times of short messages.) And
// it uses less of slow links on paths of tens of microseconds.
//
// # Implementations
//
// cc/timely follows round-trip times and is the default. cc/dcqcn follows congestion
// marks (ECN), for networks whose switches set them. cc/swift keeps round trips to a target
// that rises with the number of flows. cc/cubic is no [Algorithm] but a window: sessions that
// follow losses in place of a controller have it, to share links with TCP (package session).
package cc
