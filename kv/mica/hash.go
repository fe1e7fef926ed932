package mica

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// Odd numbers with bits that look random, for Hash: the first digits of the square roots of 2, 3, 5
// and 7 behind the point.
const (
	k0 = 0x6A09E667F3BCC909
	k1 = 0xBB67AE8584CAA73B
	k2 = 0x3C6EF372FE94F82B
	k3 = 0xA54FF53A5F1D36F1
)

// fold multiplies to 128 bits, and adds both halves without carry.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Hash returns the hash of a key by which it belongs to a partition. Clients and servers must agree
// on it, so it never changes, and it has no secret: anyone can make keys of one partition. Within
// it [Partition.Hash] spreads them.
func Hash(key []byte) uint64 {
	h := uint64(len(key))*k1 ^ k0
	for len(key) > 16 {
		h = fold(binary.LittleEndian.Uint64(key)^k2, binary.LittleEndian.Uint64(key[8:])^h)
		key = key[16:]
	}
	var a, b uint64
	switch n := len(key); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[n-8:])
	case n >= 4:
		a = uint64(binary.LittleEndian.Uint32(key))
		b = uint64(binary.LittleEndian.Uint32(key[n-4:]))
	case n > 0:
		a, b = uint64(key[0])<<8|uint64(key[n-1]), uint64(key[n/2])
	}
	h = fold(a^k2, b^h)
	return fold(h^k3, k1)
}

// PartitionOf returns the partition of a hash, of n: 1 to MaxPartitions.
func PartitionOf(hash uint64, n int) int { return int(hash >> 48 * uint64(n) >> 16) }

// KeyHash is a key's hash within a partition: see [Partition.Hash].
type KeyHash uint64

// Hash returns the hash of a key that the methods of the partition, and of its Readers, take. It
// depends on a secret, so that nobody who sends keys can choose their places. Any goroutine may
// call it.
func (p *Partition) Hash(key []byte) KeyHash { return KeyHash(maphash.Bytes(p.seed, key)) }

// bucketOf returns the number of the bucket of a hash.
func (p *Partition) bucketOf(hash KeyHash) uint32 { return bucketOf(hash, p.index) }

// bucketOf returns the number of the bucket of a hash, of n.
func bucketOf(hash KeyHash, n uint32) uint32 {
	return uint32(uint64(uint32(hash)) * uint64(n) >> 32)
}

// tagOf returns the tag of a hash.
func tagOf(hash KeyHash) uint64 {
	if tag := uint64(hash) >> 32 & 0xFFFF; tag != 0 {
		return tag
	}
	return 1
}
