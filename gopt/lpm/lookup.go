package lpm

import "github.com/userspace-rpc/erpc/gopt"

//go:generate go run github.com/userspace-rpc/erpc/cmd/gopt .

// V4 is a table of IPv4 prefixes.
type V4 struct{ trie *trie }

// NewV4 returns a table of IPv4 routes; of two with the same prefix the later one counts. Errors:
// ErrPrefix, ErrHop.
func NewV4(routes []Route) (*V4, error) {
	t, err := build(routes, true)
	if err != nil {
		return nil, err
	}
	return &V4{t}, nil
}

// Lookup returns the next hop of an address, a big-endian number, or NoRoute.
//
//gopt:batch B=32
func (t *V4) Lookup(addr uint32) uint32 {
	entry := &t.trie.entries[addr>>8]
	gopt.Expensive(entry)
	e := *entry
	if e&more == 0 {
		return e
	}
	entry = &t.trie.entries[start(e)+addr&0xff]
	gopt.Expensive(entry)
	return *entry
}

// V6 is a table of IPv6 prefixes.
type V6 struct{ trie *trie }

// NewV6 returns a table of IPv6 routes; of two with the same prefix the later one counts. Errors:
// ErrPrefix, ErrHop.
func NewV6(routes []Route) (*V6, error) {
	t, err := build(routes, false)
	if err != nil {
		return nil, err
	}
	return &V6{t}, nil
}

// Lookup returns the next hop of an address, or NoRoute.
//
//gopt:batch B=32 values=addr
func (t *V6) Lookup(addr *[16]byte) uint32 {
	entry := &t.trie.entries[root(addr)]
	gopt.Expensive(entry)
	e := *entry
	for i := 3; e&more != 0; i++ { // the last byte's group has no further ones
		entry = &t.trie.entries[start(e)+uint32(addr[i])]
		gopt.Expensive(entry)
		e = *entry
	}
	return e
}

func root(a *[16]byte) uint32 { return uint32(a[0])<<16 | uint32(a[1])<<8 | uint32(a[2]) }
