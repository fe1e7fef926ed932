// Command raft-kv runs and uses a replicated key-value store: see raft-kv --help.
//
//	raft-kv cluster                        three replicas, each a process, on loopback
//	raft-kv put KEY VALUE, get, delete, cas, status, member
//	raft-kv bench                          latency as the eRPC paper measures it
//	raft-kv sim                            the same on virtual cores, for round trips of all lengths
//	raft-kv demo                           three replicas, the leader is killed under load
//	raft-kv server                         one replica
//
// With --json a command prints one JSON object on standard output; progress goes to standard
// error. Exit status: 0 done, 1 failed, 2 wrong usage.
package main
