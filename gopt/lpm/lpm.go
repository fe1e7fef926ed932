package lpm

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// ErrPrefix means a prefix of the wrong family, or one that is not valid.
var ErrPrefix = errors.New("lpm: bad prefix")

// ErrHop means a next hop beyond MaxHop, or too many groups of 256 entries.
var ErrHop = errors.New("lpm: next hop or table too large")

// MaxHop is the largest next hop. Lookups return NoRoute where no prefix matches.
const (
	MaxHop  = 1<<30 - 2
	NoRoute = 1<<30 - 1
)

// Route is a prefix and what it leads to.
type Route struct {
	Prefix netip.Prefix
	Hop    uint32
}

// more marks an entry that is the number of a group, in place of a next hop.
const more = 1 << 31

// rootBits is how much of an address the first access takes.
const rootBits = 24

// trie is a table of 2^24 entries, and groups of 256 entries for the bytes behind.
type trie struct{ entries []uint32 }

// build enters routes, the shortest prefixes first.
func build(routes []Route, is4 bool) (*trie, error) {
	routes = slices.Clone(routes)
	slices.SortStableFunc(routes, func(a, b Route) int {
		return cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits())
	})
	for _, r := range routes {
		if !r.Prefix.IsValid() || r.Prefix.Addr().Is4() != is4 || r.Prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%w: %v", ErrPrefix, r.Prefix)
		}
		if r.Hop > MaxHop {
			return nil, fmt.Errorf("%w: %d", ErrHop, r.Hop)
		}
	}
	t := &trie{make([]uint32, 1<<rootBits)}
	for i := range t.entries {
		t.entries[i] = NoRoute
	}
	for _, r := range routes {
		if err := t.add(r.Prefix.Masked().Addr().AsSlice(), r.Prefix.Bits(), r.Hop); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// add enters one prefix. No longer one is there yet, so whatever it covers it may write over.
func (t *trie) add(addr []byte, size int, hop uint32) error {
	at, level := uint32(addr[0])<<16|uint32(addr[1])<<8|uint32(addr[2]), 0
	depth := rootBits
	for size > depth {
		e := t.entries[at]
		if e&more == 0 { // a group of its own, that leads where the entry did
			group := uint32(len(t.entries)>>8 - 1<<(rootBits-8))
			if group >= 1<<24-1<<(rootBits-8) {
				return ErrHop
			}
			for range 256 {
				t.entries = append(t.entries, e)
			}
			e = more | group
			t.entries[at] = e
		}
		at = start(e) + uint32(addr[3+level])
		level++
		depth += 8
	}
	for i := range uint32(1) << (depth - size) {
		t.entries[at+i] = hop
	}
	return nil
}

// start returns where the group of an entry begins.
func start(e uint32) uint32 { return 1<<rootBits + e&^more<<8 }
