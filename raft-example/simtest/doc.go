// Package simtest holds no code but tests: whole clusters of the replicated store, with
// their clients, in the deterministic network of package transport/sim.
//
// Each seed decides a cluster of three or five replicas, durable or in memory, that know
// members by address or by role, and what happens to it: lost, repeated and late packets,
// partitions, also one-way ones, leaders and others that are killed, restarted (with a torn
// log), stopped for a while, or whose clock jumps, changes of membership. After each run the
// history of the clients must be linearizable, the cluster must work again, and its replicas
// must agree. A failure is repeated by
//
//	go test ./simtest -run TestSeeds -seed=N -v
//
// -from=N -for=10m runs as many seeds from N on as there is time for; with -long they are of
// a longer kind, with more members, slower disks and more compactions (make seeds).
//
// # Map
//
//	owns       random clusters in virtual time
//	called by  go test
//	never      a run depends on anything but its seed
package simtest
