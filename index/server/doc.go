// Package server serves an index.Map over erpc: the server of the eRPC paper's section 7.2.
//
// Lookups come by the burst. A burst of GETs is one call of Map.GetBatch, so that their cache
// misses overlap. PUT and DELETE are short and run in the event loop too. SCAN and SUM take long,
// so they run in background workers. The paper measures what that is good for: with scans in the
// event loop the 99th percentile of GETs is 26 us, with workers 12 us. [Config.ScanInLoop] has the
// former.
//
// [Bytes] does the same for an index.Bytes, whose values have any length.
//
// The map is the application's: others may use it while it is served. A Service keeps no state of
// its own, so that one may serve any number of event loops.
//
// [NewDurable] and [NewDurableBytes] serve maps with a log, see package durable. A PUT or DELETE is
// answered when the log's Policy says so, and waits while the disk does not keep up. No loop waits,
// and reads go on.
//
// Requests are checked, and an answer is bounded however much a scan asks for. Errors have the code
// InvalidArgument; a client of package client finds index.ErrKeyTooLong and message.ErrRequest in
// them. PUTs beyond [Config.Memory] have the code ResourceExhausted and message.ErrFull, writes
// after a failure of the log FailedPrecondition and message.ErrReadOnly. A PUT runs at most once,
// as every request of erpc does.
//
// # Map
//
//	owns       handlers for a map that the application owns
//	called by  cmd/erpc-index and applications
//	never      a scan delays lookups, unless ScanInLoop asks for it
package server
