// Command erpc-cluster runs a service of several server processes on this machine, with an etcd in
// its own process, and shows what clients see of it: zones, rates, latencies, and what happens when
// servers die, drain, stand still and come, and when etcd is away.
//
//	erpc-cluster up --nodes 5         a live table; commands on standard input
//	erpc-cluster bars                 deaths, etcd away, rolling restarts, a lost zone beside bars
//	erpc-cluster demo --for 1m        the same by a script, and what was seen
//
// The load is open: calls begin at times that a rate says, whether earlier ones have ended or not.
package main
