package lpm_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/lpm"
)

// randomRoutes draws prefixes that overlap, few of them short.
func randomRoutes(r *rand.Rand, n, bits int) (routes []lpm.Route) {
	for i := range n {
		b := make([]byte, bits/8)
		for j := range b {
			b[j] = byte(r.IntN(3))
		}
		addr, _ := netip.AddrFromSlice(b)
		size := 10 + r.IntN(bits-9)
		if i < 8 {
			size = i
		}
		prefix := netip.PrefixFrom(addr, size)
		routes = append(routes, lpm.Route{Prefix: prefix, Hop: uint32(i)})
	}
	return routes
}

// oracle finds the longest prefix by looking at all of them.
func oracle(routes []lpm.Route, a netip.Addr) uint32 {
	best, hop := -1, uint32(lpm.NoRoute)
	for _, r := range routes {
		if r.Prefix.Bits() >= best && r.Prefix.Masked().Contains(a) {
			best, hop = r.Prefix.Bits(), r.Hop
		}
	}
	return hop
}

func TestV4(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	routes := randomRoutes(r, 300, 32)
	table, err := lpm.NewV4(routes[1:])
	if err != nil {
		t.Fatal(err)
	}
	var addrs []uint32
	for range 2000 {
		var b [4]byte
		for j := range b {
			b[j] = byte(r.IntN(4))
		}
		addrs = append(addrs, binary.BigEndian.Uint32(b[:]))
	}
	hops := make([]uint32, len(addrs))
	table.LookupBatch(nil, nil)
	table.LookupBatch(addrs, hops)
	for i, a := range addrs {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], a)
		want := oracle(routes[1:], netip.AddrFrom4(b))
		if got := table.Lookup(a); got != want || hops[i] != want {
			t.Fatalf("%v: %d, in the batch %d, want %d", netip.AddrFrom4(b), got, hops[i], want)
		}
	}
}

func TestV6(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	routes := randomRoutes(r, 300, 128)
	table, err := lpm.NewV6(routes)
	if err != nil {
		t.Fatal(err)
	}
	addrs := make([][16]byte, 2000)
	for i := range addrs {
		// Half of them lie in a prefix, maybe a long one.
		if i%2 == 0 {
			addrs[i] = routes[r.IntN(len(routes))].Prefix.Addr().As16()
			continue
		}
		for j := range addrs[i] {
			addrs[i][j] = byte(r.IntN(4))
		}
	}
	hops := make([]uint32, len(addrs))
	table.LookupBatch(addrs, hops)
	for i := range addrs {
		want := oracle(routes, netip.AddrFrom16(addrs[i]))
		if got := table.Lookup(&addrs[i]); got != want || hops[i] != want {
			t.Fatalf("%x: %d, in the batch %d, want %d", addrs[i], got, hops[i], want)
		}
	}
}

func TestBadRoutes(t *testing.T) {
	four, six := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")
	if _, err := lpm.NewV4([]lpm.Route{{Prefix: six}}); !errors.Is(err, lpm.ErrPrefix) {
		t.Errorf("IPv6 in IPv4: %v", err)
	}
	if _, err := lpm.NewV6([]lpm.Route{{Prefix: four}}); !errors.Is(err, lpm.ErrPrefix) {
		t.Errorf("IPv4 in IPv6: %v", err)
	}
	if _, err := lpm.NewV4([]lpm.Route{{}}); !errors.Is(err, lpm.ErrPrefix) {
		t.Errorf("no prefix: %v", err)
	}
	if _, err := lpm.NewV4([]lpm.Route{{four, lpm.MaxHop + 1}}); !errors.Is(err, lpm.ErrHop) {
		t.Errorf("a hop too large: %v", err)
	}
}
