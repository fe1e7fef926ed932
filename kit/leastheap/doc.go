// Package leastheap gives a program a least heap: the garbage collector leaves it alone until
// there are so many bytes on the heap, and then once for as many more. A program with little state
// and much garbage so has few collections, and a GOGC for its large states all the same.
//
// The runtime has only GOGC, a percentage of what the last collection has left. So [Keep] sets
// GOGC after each collection, in a cleanup that it makes due: as many percent as lead to the least
// heap, or the caller's own when those lead further. Between the end of a collection and the
// cleanup the old percentage counts: if the state has grown from little to much in one cycle that
// would be too many bytes. A memory limit at a few times the goal bounds it.
//
// # Map
//
//	owns       GOGC and the memory limit of the process, while it keeps a least heap
//	called by  commands
//	never      it holds memory, as a ballast would
package leastheap
