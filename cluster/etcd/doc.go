// Package etcd announces servers in etcd v3 and finds them there: the [Registration] of a server,
// and the [Source] of a cluster.Resolver. Package cluster has the entries and what goes wrong.
//
// A role for servers and clients, where etcd has authentication: servers write, and clients read,
// SERVICE/ and erpc/v1/ (etcdctl role grant-permission --prefix=true web readwrite erpc/v1/).
//
// # Map
//
//	owns       keys in etcd, leases and their renewal, watches, numbers of servers and clients
//	called by  servers, and cluster.Resolver
//	never      a lease is believed to last longer than etcd lets it; a watch that
//	           was compacted goes on with a hole; a request to etcd waits for ever
//
// # Registration
//
// One goroutine renews the lease each third of its time to live, and looks at its own key then: one
// that somebody has deleted is written again, one that a later process of the server's name has
// taken ends the registration. Another beats: a process that was stopped finds its last beat long
// ago, and so does each request that asks Serving. The lease lasts from the time at which its last
// renewal was sent.
//
//	state      Serving      Held         left when
//	held       nil          true         the lease is over: late; stopped past it: lapsed
//	late       nil          false        etcd answers: held, or it has no such lease: a new one
//	lapsed     ErrLapsed    false        etcd answers, to a renewal sent since: held
//	closed     nil          false        the server is to end now
//	over       ErrReplaced, ErrWrongEtcd
//
// So etcd's absence takes no server out of service, and a process that was stopped past its lease
// is. What must have one owner at a time asks Held.
//
// # Watch
//
// A list at a revision, then changes from the next one on, in two prefixes (see package cluster).
// The etcd client resumes a watch over lost connections. The source begins anew with a list when
// the revision is compacted, when etcd's revision is below the view's, and when it is another etcd.
// While no change comes it asks etcd every 10 s whether it is there. When all connections were lost
// it compares how many keys stand there and which one is the newest: an etcd that has lost its data
// may have the same id, and be past the view's revision by then. Changes without end make a view
// each 10 ms at most, or as often as takes a fifth of a core.
package etcd
