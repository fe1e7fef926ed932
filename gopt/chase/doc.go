// Package chase follows chains of pointers, one after the other or many interleaved: the
// microbenchmark of the G-Opt paper (section 3.3, D = 100) which measures nothing but latency.
//
// # Map
//
//	owns       chains of pointers
//	called by  its benchmarks
//	never      it is used for anything but measuring
package chase
