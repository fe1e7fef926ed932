// Package cuckoo is a 2-8 cuckoo hash table: each key lies in one of two buckets of eight places
// (MemC3's terms, as in the G-Opt paper, section 3.3). [Table] has numbers as keys. [Switch] has
// MAC addresses and ports, as a layer-2 switch (section 4.1, after CuckooSwitch). [Names] has
// prefixes of names and ports, as a router of Named Data Networking (the same section).
//
// A bucket has two cache lines: its keys, and their values. A lookup reads the first line of one or
// two buckets, and a second line if the key is there. Tables are for one writer and no readers
// meanwhile; any number may read at the same time.
//
// # Map
//
//	owns       the buckets of a table
//	called by  programs with fixed-size keys; benchmarks here
//	never      a writer runs beside readers
package cuckoo
