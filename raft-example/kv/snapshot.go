package kv

import (
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrSnapshot means that bytes are not a snapshot.
var ErrSnapshot = errors.New("kv: damaged snapshot")

// A snapshot is
//
//	0 magic u32 · 4 form u32 · 8 sessions u64 · 16 keys u64 · 24 the log's time in ms u64
//	with form 3, the cluster's version u64
//	sessions, without a write, then the others, the oldest first:
//	    id u64 · seq u64 · time of the last write u64 · answer size u8 · answer
//	keys: key size u8 · value size u8 · key · value
//	CRC-32C of all that u32
//
// Form 2 is that of version 0, which form 3 never says.
const (
	snapMagic  = 0x53564b45 // "EKVS"
	snapTimes  = 2          // a form; 1 had no times
	snapRaised = 3          // a form
	snapHeader = 24         // without the time and what follows it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Digest returns a text that two stores with the same version, keys, values and sessions share.
func (s *Store) Digest() string {
	var keys, sessions uint64
	for i := range s.shards {
		s.shards[i].each(func(k *Key, v *Value) {
			h := crc32.Update(crc32.Checksum(k.Bytes(), castagnoli), castagnoli, v.Bytes())
			keys += uint64(h) * 0x9E3779B97F4A7C15 // in any order
		})
	}
	s.sessions.each(func(n *session) { // in this order
		sessions = (sessions ^ n.id ^ n.seq<<32 ^ n.last<<16) * 0x9E3779B97F4A7C15
	})
	return fmt.Sprintf("version %d, %d keys %016x, %d sessions %016x", s.version, s.keys, keys,
		s.Sessions(), sessions)
}
