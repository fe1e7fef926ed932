// Command raft-kv runs and uses a replicated key-value store: see raft-kv --help.
//
//	raft-kv cluster                        three replicas, each a process, on loopback
//	raft-kv put KEY VALUE, get, delete, cas, status, member, upgrade
//	raft-kv demo                           three replicas, the leader is killed under load
//	raft-kv server                         one replica
//
// Command raft-bench, in the module labs, measures it: latency as the eRPC paper does, and the same
// on virtual cores.
//
// With --json a command prints one JSON object on standard output; progress goes to standard
// error. Exit status: 0 done, 1 failed, 2 wrong usage.
package main
