// Package model is a network of one-sided operations in virtual time: machines with an RDMA adapter
// each, links between them, and threads whose processor time is counted. It runs the same clients
// and servers as real adapters do, byte for byte, and says when each byte would have moved.
//
// # Map
//
//	owns       virtual adapters, links and time
//	called by  rfp/simtest and internal/paperlab/rfplab
//	never      it reads a clock; two runs of a seed differ
//
// # An adapter
//
// An operation passes, in this order: the issuing adapter's out-bound engine, the wire, and the
// serving adapter's in-bound engine. A READ's answer passes the wire once more. Each engine and
// each direction of the wire serves one at a time, in the order of arrival:
//
//	stage        takes                                  rate is the adapter's
//	post         the thread's time, per operation       -
//	PIO          lines of 64 bytes of the request       PIO, where one is known
//	out-bound    1/OutWrite or 1/OutRead                operations it issues
//	wire         (bytes + header) / bandwidth           link
//	latency      fixed, plus the fetch of a payload     -
//	             that is too large to be inlined
//	in-bound     1/InWrite or 1/InRead                  operations it serves
//
// Where the adapter holds only so many connections, an operation of another one keeps the engine
// busy for Miss. Stages count in picoseconds.
//
// A side whose Datagrams was called sends datagrams in place of WRITEs, at the rates OutSend and
// InSend.
//
// Nothing else in a run says how fast a design is as a whole. [Paper], [Pipelined], [Apt] and
// [RoCE] hold the numbers, each with its source. Effects without a number there are left out, such
// as the contention of many threads for one adapter.
//
// # Time
//
// A [Network] runs events in the order of their time, and of their making where that is equal. A
// [Thread] is a function that runs when something has changed and is busy for as long as it says.
// With the same seed and program a run gives the same result. Tear makes memory as unkind as the
// contract of package onesided allows.
package model
