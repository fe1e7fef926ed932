// Command kv measures package kv/mica beside cache libraries of Go in one process and one thread:
// ristretto, otter, fastcache, freecache, and Go's map with a lock. It is a module of its own, so
// that the library depends on none of them.
//
//	go run . -keys 1000000 -rounds 7
//	go run . -keys 16000000 -rows mica,fastcache
//
// Keys have 16 bytes and values 32. The rows take turns in each round. A ratio is formed within a
// round; the table has medians, and the range of the ratios. Each value that is found is compared.
// A miss is counted: caches may have forgotten, and each has room for twice the items.
//
// Its tests run gomemcache, a client of memcached, against package kv/memcached.
package main
