// Package adaptive makes calls in the way that takes the least time, out of several to the same
// server: results that the client fetches, results that the server writes (package rfp), and RPCs
// (package erpc). It is an addition to the papers, whose clients have two ways and choose by
// process time and retries.
//
// # Map
//
//	owns       the choice of a way for each call
//	called by  applications with more than one way to a server
//	never      a call is repeated by another way
//
// # How it chooses
//
// A [Chooser] measures what calls take, from their beginning to their end. It begins with some
// calls of each way, in turns. Then calls go the best way. Now and then a few go another one, in
// case it has become better; the further behind a way was, the less often, so that all of that
// costs about 1 % of the time. A way that was better by 3 % in a probe is tried again, twice as
// long, before calls go there: many clients that change at once would meet on the other way.
//
// Nothing else is known of the ways, and none of process times, sizes, adapters or how many clients
// there are.
//
// # Endpoint
//
// An [Endpoint] has ways, and a Chooser for each request type. Its calls end as those of the ways
// do. One goroutine at a time uses it.
package adaptive
