// Package ycsb is the Yahoo! Cloud Serving Benchmark: its workloads A to F as generators, records
// that can be checked, and clients that use a store and check each answer. Source: B. Cooper et
// al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, sections 4 and 5, and the
// defaults of its program. The package reads no clock and opens nothing: a program measures.
//
//	w, err := ycsb.Standard("b")              // 95 % reads, 5 % updates, scrambled Zipf
//	keys := ycsb.NewKeyspace(20_000, 0)       // shared by all clients
//	c, err := ycsb.NewClient(ycsb.Config{Workload: w, Keys: keys, ID: 1, Seed: 7})
//	for ... {
//		op, err := c.Step(ctx, db)            // one operation, its answer checked
//	}
//	fmt.Println(c.Counts())
//
// # Map
//
//	owns       workloads, records, and what a client expects of each
//	called by  labs/ycsb and programs like it
//	never      a wrong answer of a store passes; it reads a clock or opens anything
//
// # Distributions
//
//	Uniform    each record alike
//	Zipfian    rank k of 10^10 with probability k^-0.99/ζ; a hash of the rank says which record
//	Latest     rank k of the records that are there, from the newest one back
//
// Ranks are drawn by rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-Inversion to
// Generate Variates from Monotone Discrete Distributions", ACM TOMACS 6(3), 1996). It is exact, and
// its set-up takes constant time, so the number of ranks may grow with each insert. YCSB's own
// generator (J. Gray et al., SIGMOD 1994) is an approximation whose sum ζ grows term by term.
//
// As in YCSB the hashed ranks are those of 10^10 records however many there are. So the hottest
// record always gets 1/26.469 of the requests, and more records share the rest.
//
// # Records
//
// A record is its fields one after the other: 10 of 100 bytes. A field begins with a version of 8
// bytes; the rest is a stream that key, field and version determine. Thus a
// record shows whether each field was written whole, for this key, and by which write. A version
// names its writer and that writer's count of writes. A client remembers its acknowledged writes,
// and counts a record as stale if it has an older write of the same client, or what was there
// before any.
//
// # Keys
//
// The key of record n is "user" and the FNV-1a hash of n in decimal, so the order of keys has
// nothing to do with the order of inserts. Records from 0 on are loaded before a run. Inserts take
// the next numbers; a record takes part in other requests when all before it are there too.
package ycsb
