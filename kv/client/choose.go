package client

import "github.com/userspace-rpc/erpc/kv/mica"

// nameHash returns what choose needs of a server's name.
func nameHash(name string) uint64 { return mica.Hash([]byte(name)) }

// choose returns which of the servers, by their nameHash, has the keys of a hash. It is for one or
// more.
func choose(servers []uint64, hash uint64) (at int) {
	if len(servers) == 1 {
		return 0
	}
	best := uint64(0)
	for i, s := range servers {
		// The finalizer of splitmix64, which is a bijection: no two servers draw.
		x := s ^ hash
		x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
		x = (x ^ x>>27) * 0x94D049BB133111EB
		if x ^= x >> 31; x >= best {
			best, at = x, i
		}
	}
	return at
}
