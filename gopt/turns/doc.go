// Package turns measures ways of the same lookups in turns and prints a table: lookups one by one,
// batched by hand, and batched by gopt/translate. "make bench-gopt" runs it for each structure.
//
// # Map
//
//	owns       the benchmark of batched lookups
//	called by  benchmarks of the packages below gopt
//	never      a test depends on its times
package turns
