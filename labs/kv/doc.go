// Command kv measures package kv/mica beside cache libraries of Go in one process and one thread:
// ristretto, otter, fastcache, freecache, and Go's map with a lock. It is a module of its own, so
// that the library depends on none of them.
//
//	go run . -keys 1000000 -rounds 7
//	go run . -keys 16000000 -rows mica,fastcache
//	go run . -net udp
//
// The row crew is a partition with readers beside its owner; one thread is both there. A PUT
// "warmed by 32" comes after its lines were asked for, with those of 31 others.
//
// Keys have 16 bytes and values 32. The rows take turns in each round. A ratio is formed within a
// round; the table has medians, and the range of the ratios. Each value that is found is compared.
// A miss is counted: caches may have forgotten, and each has room for twice the items.
//
// With -net it measures the server of package kv/server over UDP or shared memory beside bare RPCs,
// and beside memcached and redis if they are installed, each pipelined and with multi-gets; and
// package kv/memcached beside memcached in the same protocol. Servers are on one core, their
// clients on another, and 64 keys or more are under way. Ours is a store there, so that all keys
// are found.
//
// Its tests run gomemcache, a client of memcached, against package kv/memcached.
package main
