// Command raft-bench measures the replicated store of raft-example: PUTs beside plain RPCs, on this
// machine and on virtual cores.
//
//	raft-bench put --placement spread
//	raft-bench sim --trips 2.3us,7us,20us
//
// # Map
//
//	owns       the command line of package raft/lab and package raft/simlab
//	called by  people and the Makefile
//	never      a result goes to standard error, or progress to standard output
package main
