// Package lending decorates a transport so that it keeps the caller's packets for a while,
// as an adapter with zero-copy transmission does, and notices when the caller changes
// them meanwhile. It is for tests.
//
// From TxBurst on, packets lie in a queue as references to the caller's memory; the bytes
// are only read when a packet leaves the queue for the inner transport. A packet leaves
//
//	after a delay     with [Config.After], which a simulation gives
//	some calls later  of TxBurst, RxBurst or Wait, without it
//	before Wait       blocks, without it: the owner sleeps, the adapter does not
//	in Flush          which sends all
//
// and never before an earlier one. The bytes that leave are compared with a hash of the
// bytes that TxBurst took. A difference is a [Violation]: somebody used a buffer again
// that the transport still referred to. It goes to [Config.Report]. Memory that cannot be
// read any more, since it was given back to the system, is a violation too.
//
// Close drops what is in the queue and reads nothing, so buffers may change after it.
//
// The transport underneath may copy or not. If it refers to packets itself, until Flush,
// changes that come after they left the queue are not noticed.
//
// # Map
//
//	owns       copies of lent packets, compared when they are given back
//	called by  tests, between erpc and another transport
//	never      a buffer that changes while it is lent goes unnoticed
package lending
