// Package ring provides a bounded queue from many producers to one consumer, by
// which other goroutines talk to a polling loop, without a lock unless there are very many.
//
// It is Vyukov's bounded queue with a sequence number per slot
// (https://www.1024cores.net/home/lock-free-algorithms/queues/bounded-mpmc-queue),
// simplified for one consumer: the consumer's position is a plain word, and an
// empty ring is noticed by reading one slot that no producer is writing to. The ring is small, so
// that it stays in caches however much the queue may hold: the rest waits behind it in a list.
//
// # Map
//
//	owns       a bounded queue to one consumer
//	called by  package erpc, for commands and answers of workers
//	never      the consumer waits for a lock
package ring
