// Package benchrows serves benchmarks that measure several programs side by side. It has rows that
// take turns, clocks, cores, child processes, and redis as a peer.
//
// Rows take turns in each round, so that what else happens on the machine meets all of them. A
// ratio is formed within a round; a table has medians, and the range of the ratios.
//
// # Map
//
//	owns       rows that are measured in turns, and their child processes
//	called by  programs in labs/
//	never      a child outlives its parent
package benchrows
