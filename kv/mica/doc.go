// Package mica is a key-value cache and store in memory, after MICA's, which HERD serves ("Using
// RDMA Efficiently for Key-Value Services", SIGCOMM 2014, section 4).
//
// # Map
//
//	owns       index and items of one partition
//	called by  its one owner, and Readers beside it
//	never      the owner waits for a reader; the Go heap holds items
//
// # Partitions
//
// A [Partition] has one owner: one goroutine at a time calls it, and there are no locks in it. A
// server has one partition per event loop, and keys belong to partitions by [PartitionOf] their
// [Hash] (MICA's EREW mode). That hash is public: a client can have all its keys in one partition.
// Within it keys are known by [Partition.Hash], which has a secret of the partition: no client can
// evict a key of others by keys that share its bucket, or fill a bucket's chain.
//
// With [Config.Readers] other goroutines read beside the owner (CREW), each with a [Reader]. It
// copies an item while that may be written to, and comes again if a version of the bucket says that
// it was. Under Go's memory model that needs all stores of the owner to be atomic, and each costs
// some 20 cycles. Readers pay nothing for it. A Reader changes nothing, so what it finds is not
// moved to the head.
//
// All memory lies outside the Go heap, in huge pages where there are any, and has no Go pointers:
// the garbage collector never looks at it. A partition takes its memory when it is made and never
// more.
//
// # The index
//
// A bucket is one cache line: 7 entries, a link, and a version for readers. An entry is 0, or 16
// bits of the hash that are never 0 (the tag) and a 48-bit offset of an item. So a lookup reads one
// line of the index, and one item for each entry with its tag: nearly always the right one. Keys
// are compared in full.
//
//	bits of the hash    47-32   31-0
//	are for             tag     bucket
//
// # Items
//
//	word 0    key length (8), value length (24), expiry in seconds (32)
//	word 1    bits (16), version (48)
//	word 2    the client's flags (32): only if they are not 0
//	          key, value
//
// A key of 16 bytes and a value of 32 make one cache line. Items begin at multiples of 8 bytes, and
// in a cache those of up to 64 bytes lie within one line. A version is new with each change of an
// item; [Partition.CompareAndSwap] compares it.
//
// # Cache mode
//
// Items are appended to a circular log, where new ones overwrite the oldest. An offset is that of
// the log as if it had no end, so it says by itself whether the item is still there: whether the
// distance to the tail is at most what the log holds. A Reader looks at the head once more when it
// has copied an item, and the head moves before what was there is overwritten. Entries of
// overwritten items stay in the index until their place is needed. A full bucket loses the entry
// that is nearest to being overwritten. With [Config.MoveToHead] items that
// are read when they have become old are appended anew.
//
// Offsets count units of 8 bytes modulo 2^48. While the tail goes round half of that range, a sweep
// visits each bucket once and clears entries of what was overwritten, so that no entry is old
// enough to look new.
//
// # Store mode
//
// Nothing that was acknowledged is lost while the process lives: if there is no memory a write
// fails with [ErrFullItems] and changes nothing. Items lie in blocks of multiples of 8 bytes, from
// lists of free blocks by size; blocks that become free are joined with their neighbours at once.
// Full buckets go on in extra ones, whose memory is of the same blocks. A chain of extra buckets is
// bounded, so keys with equal hashes cost their owner an [ErrFullIndex], not others their time.
//
// A store that refuses a write has 1 % of the memory of items left or less, unless many writes and
// deletes have scattered it: then 15 % at most in tests. An item of n bytes of key and value takes
// n + 16, rounded up to 8, and 14 of the index if [Config.ItemSize] is n.
//
// # Expired items
//
// An item past its time is removed when its key is asked for, and by [Partition.Sweep], which
// owners call now and then. A store looks at its blocks in the order of memory, so that what
// expires side by side becomes one free block. A write that finds no room looks at 512 blocks. No
// sweep looks at anything before the first item can have expired.
//
// # Batches
//
// A lookup in a partition larger than the caches waits for two lines of memory, one after the
// other. [Partition.GetBatch] and [Partition.Warm] ask for the lines of all lookups at once
// (package gopt).
//
// A write waits in the same way, as it looks for the old item. So [Partition.Put] into a cache
// without readers copies a small item and returns; some 31 of them are written together. Each other
// method but Warm, SetNow and Now begins with writing those that wait, so nobody can see it: a Put
// of a cache has no version to return, and cannot fail. Stores and partitions with readers write at
// once. Write is for callers that want the version.
//
// # Views
//
// The result of an owner's lookup lies in the partition's memory. It is valid until the next call
// of any other method but Stats and Now. Keys and values that are given to a partition must not be
// views of it.
package mica
