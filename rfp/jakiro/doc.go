// Package jakiro is RFP's key-value store: partitions of package kv/mica, each behind a server of
// package rfp, and the design that the papers compare with, in which clients read the store's
// memory
// themselves.
//
// # Requests
//
//	type   request                      result
//	Get    key                          1, value; or 0
//	Put    key length (8 bits), key, value   1
//	Delete key                          1; or 0
//
// Keys belong to servers by [mica.PartitionOf] their hash; a client has a link to each.
//
// # Bypass
//
// A [Table] is a cuckoo table of three ways in memory that clients may read, after Pilaf ("Using
// One-Sided RDMA Reads to Build a Fast, CPU-Efficient Key-Value Store", ATC 2013): buckets of 32
// bytes with two checksums, one of the bucket and one of the item that it leads to. A GET reads
// buckets until one has the key's hash, then the item; a checksum that is wrong means that it was
// read while it changed, and the GET begins again. PUTs are messages.
package jakiro
