// Package gopt hides the latency of memory behind other lookups, after G-Opt ("Raising the Bar for
// Using GPUs in Software Packet Processing", NSDI 2015).
//
// A lookup in a table much larger than the caches waits some 100 ns for each cache line. Lookups of
// one batch do not depend on each other, so they can wait together: a batched function works in
// stages. A stage computes for every lookup of the batch where it reads next, asks for all these
// lines with one call of [Prefetch] or [PrefetchAt], and only then goes on. The paper has a
// compiler that emits a switch of lookups at each access; command gopt and package translate do so
// for Go, and write stages where they can. By hand they are a little faster:
//
//	for len(keys) > 0 {
//		n := min(len(keys), gopt.Batch)
//		var at [gopt.Batch]uint32
//		for i, k := range keys[:n] {
//			at[i] = bucketOf(k)
//		}
//		gopt.PrefetchAt(table, at[:n], 1)
//		for i, k := range keys[:n] {
//			out[i] = table[at[i]].find(k)
//		}
//		keys, out = keys[n:], out[n:]
//	}
//
// What makes the difference in Go:
//
//   - A prefetch is a call of assembly, 2 to 5 ns. So one call takes a group of lines.
//   - A processor has few places for lines that are on their way to the first level of its cache.
//     AMD's Zen 4 has 24, and drops the hints of a larger group. There groups of more than 20 lines
//     are asked for into the second level, which takes half the time of a batch in cuckoo away.
//   - Few lookups need one more access than the others, such as a second bucket. Where they wait
//     for the group after, they wait with it, and not alone.
//   - Arrays of fixed size on the stack: slices of the heap cost bounds checks, and pointers in
//     them cost write barriers.
//   - A batch of 16 or 32. Fewer do not hide the latency, and many more push each other's lines out
//     of the first-level cache.
//   - The structure is not written to during the batch, or only by atomic stores, as in package
//     index.
//
// Below are structures of the paper and of its applications, each with a plain lookup and a batched
// one that gives the same answers: cuckoo (2-8 hash table, tables of MAC addresses and of prefixes
// of names), lpm (IPv4 and IPv6 prefixes), chase (chains of pointers), bptree (a static B+tree) and
// ahocorasick (many patterns, where interleaving and sorting take the place of prefetches).
//
// Other processors than amd64 and arm64 do without prefetches. Interleaving alone helps there,
// where the processor overlaps the loads of a stage by itself.
//
// # Map
//
//	owns       the prefetch of a group of cache lines
//	called by  the tables below it, index and kv/mica
//	never      a prefetch changes a result, or reads an address that is not the table's
package gopt
