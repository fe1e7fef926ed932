// Command erpc-bench compares the library with itself: the rate with each optimisation of the
// common case switched off, and servers that wait for requests by spinning, by sleeping, or both.
// The benches of each day are those of erpc, and what both share is in cmd/erpc/measure.
//
//	erpc-bench factors
//	erpc-bench waiting --conns 1,16 --pauses 0,300
//
// # Map
//
//	owns       Table 3 of the eRPC paper and the RR-Compound paper on this machine
//	called by  people
//	never      a result goes to standard error, or progress to standard output
package main
