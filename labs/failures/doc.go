// Package failures is the failure matrix: what callers see when one of their servers dies, stops,
// loses its link, hangs, drains, restarts or moves. A cell is a transport, a security, a kind of
// client and a fault; the lab runs each with real processes, and beside them grpc-go over TCP with
// the same fault, deadline and callers. It is a test, so that "make failures" (all cells) and CI
// (all pairs of values, 34 cells) run one table.
//
// # Map
//
//	owns       the processes of a cell, its network, the table of what callers saw
//	called by  make failures, make failures-pairs, .ci/run
//	never      a process or a network outlives the test; a bar is lowered to pass
//
// # A cell
//
// 32 callers call without a pause, each with a deadline of a second. Handlers sleep 3 ms, so some
// 32 calls are under way when the fault comes. A caller whose call has failed waits 10 ms. Rpc and
// Client have one server, which is the victim; the others have three, of which one is. With
// pick_first that is the one in use. Each answer is checked. Each run of a handler is noted by the
// number of its call in a file that outlives the process, so that a call that ran twice is found.
//
// A round in which the machine had no time for the lab is made again, twice at most: a goroutine of
// the client that sleeps a millisecond overslept by 50.
//
// # What it shows
//
//	failed   calls that ended with an error, from the fault on
//	slow     calls that took more than 200 ms and what the client overslept at most
//	back     from the fault until a window of 100 ms has 95 % of the rate before
//	left     from the fault until a Pool gives the server no more calls
//	good     calls that succeeded, of those that the rate before would have given
//	signs    what the client's metrics say now and did not say before; the frame of erpc top, and
//	         the record that erpc trace reads
//
// # The bars
//
// Failed is at most grpc-go's with the same policy (round_robin; pick_first; one server for Rpc and
// Client), and one call or 10 ms' worth of the victim's calls, whichever is more; where no server
// is left all calls fail, as many as there is time for. Slow is at most grpc-go's, which on a quiet
// machine is none, with two exceptions. Nobody can know that handlers hang in a server that answers
// pings: there grpc-go's count has the same more. A silent server (stopped, or gone without a sign)
// may keep the calls that it owes, which can neither be answered nor run again; but where there is
// another server, none may be slow that began once the silence could be seen. No call outlives its
// deadline.
//
// These are bars of time, and machines have neighbours. So a cell that misses one runs again, after
// grpc-go, which meets the same neighbours; four times at most. It breaks its bars if it never
// meets all of them. In a round in which the client had time no call may fail before the fault, or
// end a second late. Nothing ever excuses a wrong answer, a call that ran twice, or a process that
// does not answer. "make failures" has rounds of each cell instead, and their medians.
package failures
