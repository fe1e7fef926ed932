// Package server serves partitions of package mica over erpc, by the design of HERD ("Using RDMA
// Efficiently for Key-Value Services", SIGCOMM 2014): one event loop per partition, one round trip
// per request, and lookups that overlap.
//
// # Map
//
//	owns       one partition per event loop
//	called by  cmd/erpc-kv and applications
//	never      two threads write to one partition
//
// # Partitions
//
// A [Server] has one partition per event loop, and each has an address of its own: the loop is the
// partition's owner, so nothing is locked. Clients know the partition of a key from its hash. They
// learn the addresses from any partition (message.Info). A request at another partition than that
// of its hash is refused, and so is a write under a hash that is not that of its key: otherwise a
// client could leave items where others do not find them.
//
// # Batches
//
// Requests come by the burst (erpc.BatchHandler). A burst of GETs is one call of
// Partition.GetBatch, so that their cache misses overlap; before a burst of writes Partition.Warm
// does the same. Values are copied once, from the partition into the response. A multi-get has up
// to 64 keys of one partition, and answers with 2 MiB at most; it says of the others that they are
// to be asked for again.
//
// # Others
//
// [Server.Do] runs a function on a partition: for other protocols on the same items, such as that
// of package memcached. It runs in the thread of the partition's loop, which costs two changes of
// threads. With Config.Shared each partition has a lock, which its loop takes once for a burst of
// requests, and the function runs in the goroutine of the caller.
//
// # Restarts
//
// A server starts empty, and Serve says so in its log. Versions begin at the time of the start in
// seconds, times 65,536: a compare-and-swap by a version of an earlier process fails, unless that
// one wrote more than 65,536 items per second from start to end.
//
// A write runs at most once, as every request of erpc does.
package server
