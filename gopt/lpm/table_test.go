package lpm

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/gopt"
	"github.com/userspace-rpc/erpc/gopt/turns"
)

func (t *V4) unmarked(addr uint32) uint32 {
	e := t.trie.entries[addr>>8]
	if e&more != 0 {
		e = t.trie.entries[start(e)+addr&0xff]
	}
	return e
}

func (t *V6) unmarked(addr *[16]byte) uint32 {
	e := t.trie.entries[root(addr)]
	for i := 3; e&more != 0; i++ {
		e = t.trie.entries[start(e)+uint32(addr[i])]
	}
	return e
}

// byHand is LookupBatch as it was before it was generated.
func (t *V4) byHand(addrs, hops []uint32) {
	var at [gopt.Batch]uint32
	var which [gopt.Batch]uint8
	entries := t.trie.entries
	for len(addrs) > 0 {
		n := min(len(addrs), gopt.Batch)
		for i, a := range addrs[:n] {
			at[i] = a >> 8
		}
		gopt.PrefetchAt(entries, at[:n], 1)
		left := 0
		for i, a := range addrs[:n] {
			e := entries[at[i]]
			hops[i] = e
			if e&more != 0 {
				at[left], which[left] = start(e)+a&0xff, uint8(i)
				left++
			}
		}
		gopt.PrefetchAt(entries, at[:left], 1)
		for j, i := range which[:left] {
			hops[i] = entries[at[j]]
		}
		addrs, hops = addrs[n:], hops[n:]
	}
}

// byHand is LookupBatch as it was before it was generated.
func (t *V6) byHand(addrs [][16]byte, hops []uint32) {
	var at [gopt.Batch]uint32
	var which [gopt.Batch]uint8 // lookups that are not at their end
	entries := t.trie.entries
	for len(addrs) > 0 {
		n := min(len(addrs), gopt.Batch)
		for i := range addrs[:n] {
			at[i], which[i] = root(&addrs[i]), uint8(i)
		}
		for left, depth := n, 3; left > 0; depth++ {
			gopt.PrefetchAt(entries, at[:left], 1)
			still := 0
			for j, i := range which[:left] {
				e := entries[at[j]]
				hops[i] = e
				if e&more != 0 {
					at[still], which[still] = start(e)+uint32(addrs[i][depth]), i
					still++
				}
			}
			left = still
		}
		addrs, hops = addrs[n:], hops[n:]
	}
}

// routes4 are n routes, one of 50 longer than 24 bits.
func routes4(r *rand.Rand, n int) (routes []Route) {
	for i := range n {
		size := 16 + r.IntN(9)
		if i%50 == 0 {
			size = 25 + r.IntN(8)
		}
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], r.Uint32())
		routes = append(routes, Route{netip.PrefixFrom(netip.AddrFrom4(b), size), uint32(i)})
	}
	return routes
}

// routes6 are n routes of 48 to 64 bits, as the paper's.
func routes6(r *rand.Rand, n int) (routes []Route) {
	for i := range n {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], r.Uint64())
		binary.BigEndian.PutUint64(b[8:], r.Uint64())
		routes = append(routes, Route{netip.PrefixFrom(netip.AddrFrom16(b), 48+r.IntN(17)), uint32(i)})
	}
	return routes
}

// TestGenerated: the generated functions find what those of one lookup do.
func TestGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	four, six := routes4(r, 3000), routes6(r, 3000)
	t4, err := NewV4(four)
	if err != nil {
		t.Fatal(err)
	}
	t6, err := NewV6(six)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		a4, a6 := make([]uint32, n), make([][16]byte, n)
		var want4, want6 []uint32
		for i := range n {
			a4[i] = binary.BigEndian.Uint32(four[r.IntN(len(four))].Prefix.Addr().AsSlice())
			a6[i] = six[r.IntN(len(six))].Prefix.Addr().As16()
			a6[i][r.IntN(16)] ^= byte(r.IntN(2))
			want4, want6 = append(want4, t4.Lookup(a4[i])), append(want6, t6.Lookup(&a6[i]))
		}
		got4, got6 := make([]uint32, n), make([]uint32, n)
		t4.LookupBatch(a4, got4)
		hand4, hand6 := make([]uint32, n), make([]uint32, n)
		t4.byHand(a4, hand4)
		t6.byHand(a6, hand6)
		t6.LookupBatch(a6, got6)
		if !slices.Equal(got4, want4) || !slices.Equal(got6, want6) || !slices.Equal(hand4, want4) ||
			!slices.Equal(hand6, want6) {
			t.Fatalf("%d lookups: %v and %v, want %v and %v", n, got4, got6, want4, want6)
		}
	}
}

// BenchmarkV4 has 528 000 routes as the paper, whatever the size.
func BenchmarkV4(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	turns.Bench(b, "IPv4", func(int) turns.Set {
		t, err := NewV4(routes4(r, 528_000))
		if err != nil {
			b.Fatal(err)
		}
		look, hops := make([]uint32, turns.Lookups), make([]uint32, turns.Lookups)
		one := func(lookup func(addr uint32) uint32) func(from, to int) {
			return func(from, to int) {
				for i := from; i < to; i++ {
					hops[i] = lookup(look[i])
				}
			}
		}
		return turns.Set{
			Draw: func() {
				for i := range look {
					look[i] = r.Uint32()
				}
			},
			Result: func(i int) uint64 { return uint64(hops[i]) },
			Ways: turns.Ways(one(t.Lookup), one(t.unmarked),
				func(from, to int) { t.byHand(look[from:to], hops[from:]) },
				func(from, to int) { t.LookupBatch(look[from:to], hops[from:]) }),
		}
	})
}

// BenchmarkV6 has 200 000 routes as the paper, whatever the size.
func BenchmarkV6(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	turns.Bench(b, "IPv6", func(int) turns.Set {
		routes := routes6(r, 200_000)
		t, err := NewV6(routes)
		if err != nil {
			b.Fatal(err)
		}
		look, hops := make([][16]byte, turns.Lookups), make([]uint32, turns.Lookups)
		one := func(lookup func(addr *[16]byte) uint32) func(from, to int) {
			return func(from, to int) {
				for i := from; i < to; i++ {
					hops[i] = lookup(&look[i])
				}
			}
		}
		return turns.Set{
			Draw: func() {
				for i := range look {
					look[i] = routes[r.IntN(len(routes))].Prefix.Addr().As16()
				}
			},
			Result: func(i int) uint64 { return uint64(hops[i]) },
			Ways: turns.Ways(one(t.Lookup), one(t.unmarked),
				func(from, to int) { t.byHand(look[from:to], hops[from:]) },
				func(from, to int) { t.LookupBatch(look[from:to], hops[from:]) }),
		}
	})
}
