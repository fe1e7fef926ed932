// Package lpm finds the longest prefix that matches an address: [V4] is DIR-24-8 (Gupta, Lin and
// McKeown, INFOCOM 1998), one or two accesses; [V6] is a trie with a root of 24 bits and then 8
// bits per level, as DPDK's, four to six accesses for prefixes of 48 to 64 bits (G-Opt paper,
// sections 3.3 and 4.1).
//
// Tables are built once from a list of prefixes; lookups may run in any number of goroutines.
//
// # Map
//
//	owns       a table of prefixes that was built once
//	called by  programs that route; benchmarks here
//	never      a table changes after it was built
package lpm
