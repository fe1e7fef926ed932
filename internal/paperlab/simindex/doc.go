// Package simindex runs the index's server on virtual cores, as in the experiment of the eRPC
// paper's section 7.2: 16 cores, of which two may be workers' for scans; 64 client threads on 8
// machines, each with two requests under way to one dispatch thread; 99 % GETs, and 1 % sums of the
// 128 values after a key. The server's code and its map are real; time is that of a [Model].
package simindex
