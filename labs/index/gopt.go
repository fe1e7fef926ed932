package main

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"

	"github.com/cloudflare/ahocorasick"
	"github.com/gaissmai/bart"
	own "github.com/userspace-rpc/erpc/gopt/ahocorasick"
	"github.com/userspace-rpc/erpc/gopt/bptree"
	"github.com/userspace-rpc/erpc/gopt/chase"
	"github.com/userspace-rpc/erpc/gopt/cuckoo"
	"github.com/userspace-rpc/erpc/gopt/lpm"
)

// lookupRows measures the functions of package gopt in tables of about so many bytes, each plain
// and in batches. The bars are for 1 GiB. Tables that no wanted row has are not made.
func lookupRows(size int, want func(name string) bool) (rows []row) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, group := range []struct {
		name string
		rows func() []row
	}{
		{"cuckoo", func() []row { return cuckooRows(size, r) }},
		{"L2", func() []row { return switchRows(size, r) }},
		{"chase", func() []row { return chaseRows(size, r) }},
		{"B+tree", func() []row { return treeRows(size, r) }},
		{"IPv4", func() []row { return v4Rows(r) }},
		{"IPv6", func() []row { return v6Rows(r) }},
		{"Aho-Corasick", func() []row { return snortRows(r) }},
	} {
		if want(group.name) {
			rows = append(rows, group.rows()...)
		}
	}
	runtime.KeepAlive(&sink)
	return rows
}

// sink keeps results alive.
var sink uint64

// bar is that of a table of 1 GiB, or 0.95 if it fits into a cache.
func bar(size int, large float64) float64 {
	switch {
	case size >= 1<<30:
		return large
	case size <= 8<<20:
		return 0.95
	}
	return 0
}

func cuckooRows(size int, r *rand.Rand) []row {
	n := 1 << (bits.Len(uint(size)) - 1) / 128 * 8 * 8 / 10 // keys in buckets of 128 bytes
	t := cuckoo.New(n)
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = r.Uint64() | 1
		if err := t.Put(keys[i], uint64(i)); err != nil {
			panic(err) // 80 % of the places
		}
	}
	look, values, ok := make([]uint64, chunk), make([]uint64, chunk), make([]bool, chunk)
	draw := func() {
		for i := range look {
			look[i] = keys[r.IntN(n)]
		}
	}
	rows := []row{
		{"cuckoo plain", "", 0, spared(draw, func() {
			for _, k := range look {
				v, _ := t.Get(k)
				sink += v
			}
		})},
		{"cuckoo in a chain", "", 0, spared(draw, chained(look, t.Get))},
		{"cuckoo batched", "cuckoo plain", bar(size, 2), spared(draw, func() {
			t.GetBatch(look, values, ok)
			sink += values[0]
		})},
		{"cuckoo batched again", "cuckoo in a chain", 0, spared(draw, func() {
			t.GetBatch(look, values, ok)
			sink += values[0]
		})},
		{"cuckoo batches of 16", "cuckoo plain", 0, spared(draw, sixteens(func(from, to int) {
			t.GetBatch(look[from:to], values[from:], ok[from:])
		}))},
	}
	if size > 256<<20 {
		return rows // a map of that size takes minutes to fill
	}
	m := make(map[uint64]uint64, n)
	for i, k := range keys {
		m[k] = uint64(i)
	}
	return append(rows, row{"Go map", "cuckoo plain", 0, spared(draw, func() {
		for _, k := range look {
			sink += m[k]
		}
	})})
}

// chained looks one key up after the other, each of which waits for the value before: what a lookup
// takes if the processor does not go on to the next ones by itself. Values are below 2^40.
func chained(look []uint64, get func(k uint64) (uint64, bool)) func() {
	return func() {
		v := uint64(0)
		for _, k := range look {
			v, _ = get(k + v>>40)
		}
		sink += v
	}
}

// sixteens calls fn for one chunk, sixteen lookups at a time.
func sixteens(fn func(from, to int)) func() {
	return func() {
		for i := 0; i < chunk; i += 16 {
			fn(i, i+16)
		}
	}
}

// switchRows has a layer-2 switch with so many bytes of addresses.
func switchRows(size int, r *rand.Rand) []row {
	n := 1 << (bits.Len(uint(size)) - 1) / 128 * 8 * 8 / 10
	s := cuckoo.NewSwitch(n)
	list := make([]cuckoo.MAC, n)
	for i := range list {
		binary.BigEndian.PutUint32(list[i][:], r.Uint32())
		binary.BigEndian.PutUint16(list[i][4:], uint16(r.Uint32()))
		if err := s.Learn(list[i], uint16(i)); err != nil {
			panic(err) // 80 % of the places
		}
	}
	look, ports, ok := make([]cuckoo.MAC, chunk), make([]uint16, chunk), make([]bool, chunk)
	draw := func() {
		for i := range look {
			look[i] = list[r.IntN(n)]
		}
	}
	return []row{
		{"L2 plain", "", 0, spared(draw, func() {
			for _, a := range look {
				p, _ := s.Port(a)
				sink += uint64(p)
			}
		})},
		{"L2 batched", "L2 plain", 0, spared(draw, func() { s.PortBatch(look, ports, ok) })},
		{"L2 batches of 16", "L2 plain", 0, spared(draw, sixteens(func(from, to int) {
			s.PortBatch(look[from:to], ports[from:], ok[from:])
		}))},
	}
}

// spared measures fn, which does chunk operations, without what prepares it.
func spared(prepare, fn func()) func(time.Duration) float64 {
	return func(each time.Duration) float64 {
		var t time.Duration
		for ops := 0; ; {
			prepare()
			begin := use.Thread()
			fn()
			t += use.Thread() - begin
			if ops += chunk; t >= each {
				return float64(t) / float64(ops)
			}
		}
	}
}

func chaseRows(size int, r *rand.Rand) []row {
	const steps = 100
	ring := chase.New(size/4, r)
	at := make([]uint32, 32)
	draw := func() {
		for i := range at {
			at[i] = uint32(r.IntN(len(ring)))
		}
	}
	return []row{
		{"chase plain", "", 0, func(each time.Duration) float64 {
			return timed(each, steps, func() { draw(); sink += uint64(ring.Follow(at[0], steps)) })
		}},
		{"chase batched", "chase plain", bar(size, 5), func(each time.Duration) float64 {
			return timed(each, steps*len(at), func() { draw(); ring.FollowBatch(at, steps) })
		}},
	}
}

func treeRows(size int, r *rand.Rand) []row {
	n := size / 17
	keys, values := make([]uint64, n), make([]uint64, n)
	for i := range keys {
		keys[i] = uint64(i) << 20
	}
	t, err := bptree.New(keys, values)
	if err != nil {
		panic(err) // they ascend
	}
	look, got, ok := make([]uint64, chunk), make([]uint64, chunk), make([]bool, chunk)
	draw := func() {
		for i := range look {
			look[i] = keys[r.IntN(n)]
		}
	}
	return []row{
		{"B+tree plain", "", 0, spared(draw, func() {
			for _, k := range look {
				v, _ := t.Get(k)
				sink += v
			}
		})},
		{"B+tree in a chain", "", 0, spared(draw, chained(look, t.Get))},
		{"B+tree batched", "B+tree plain", bar(size, 3), spared(draw, func() {
			t.GetBatch(look, got, ok)
			sink += got[0]
		})},
		{"B+tree batched again", "B+tree in a chain", 0, spared(draw, func() {
			t.GetBatch(look, got, ok)
			sink += got[0]
		})},
		{"B+tree batches of 16", "B+tree plain", 0, spared(draw, sixteens(func(from, to int) {
			t.GetBatch(look[from:to], got[from:], ok[from:])
		}))},
	}
}

// v4Rows has 528 000 prefixes as the paper; most of them have 16 to 24 bits.
func v4Rows(r *rand.Rand) []row {
	var routes []lpm.Route
	peer := new(bart.Table[uint32])
	for i := range 528_000 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], r.Uint32())
		size := 16 + r.IntN(9)
		if i%50 == 0 {
			size = 25 + r.IntN(8)
		}
		p := netip.PrefixFrom(netip.AddrFrom4(b), size).Masked()
		routes = append(routes, lpm.Route{Prefix: p, Hop: uint32(i)})
		peer.Insert(p, uint32(i))
	}
	t, err := lpm.NewV4(routes)
	if err != nil {
		panic(err) // they are IPv4
	}
	look, hops := make([]uint32, chunk), make([]uint32, chunk)
	addrs := make([]netip.Addr, chunk)
	draw := func() {
		for i := range look {
			look[i] = r.Uint32()
			addrs[i] = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, look[i])))
		}
	}
	return []row{
		{"IPv4 plain", "", 0, spared(draw, func() {
			for _, a := range look {
				sink += uint64(t.Lookup(a))
			}
		})},
		{"IPv4 batched", "IPv4 plain", 0, spared(draw, func() { t.LookupBatch(look, hops) })},
		{"IPv4 batches of 16", "IPv4 plain", 0, spared(draw, sixteens(func(from, to int) {
			t.LookupBatch(look[from:to], hops[from:])
		}))},
		{"IPv4 bart", "IPv4 plain", 0, spared(draw, func() {
			for _, a := range addrs {
				v, _ := peer.Lookup(a)
				sink += uint64(v)
			}
		})},
	}
}

// v6Rows has 200 000 random prefixes of 48 to 64 bits and addresses in them, as the paper.
func v6Rows(r *rand.Rand) []row {
	var routes []lpm.Route
	peer := new(bart.Table[uint32])
	random := func() (b [16]byte) {
		binary.BigEndian.PutUint64(b[:], r.Uint64())
		binary.BigEndian.PutUint64(b[8:], r.Uint64())
		return b
	}
	for i := range 200_000 {
		p := netip.PrefixFrom(netip.AddrFrom16(random()), 48+r.IntN(17))
		routes = append(routes, lpm.Route{Prefix: p, Hop: uint32(i)})
		peer.Insert(p.Masked(), uint32(i))
	}
	t, err := lpm.NewV6(routes)
	if err != nil {
		panic(err) // at most 2 in 2^32 are IPv4 in IPv6
	}
	look, hops := make([][16]byte, chunk), make([]uint32, chunk)
	addrs := make([]netip.Addr, chunk)
	draw := func() {
		for i := range look {
			look[i] = routes[r.IntN(len(routes))].Prefix.Addr().As16()
			addrs[i] = netip.AddrFrom16(look[i])
		}
	}
	return []row{
		{"IPv6 plain", "", 0, spared(draw, func() {
			for i := range look {
				sink += uint64(t.Lookup(&look[i]))
			}
		})},
		{"IPv6 batched", "IPv6 plain", 1.8, spared(draw, func() { t.LookupBatch(look, hops) })},
		{"IPv6 batches of 16", "IPv6 plain", 0, spared(draw, sixteens(func(from, to int) {
			t.LookupBatch(look[from:to], hops[from:])
		}))},
		{"IPv6 bart", "IPv6 plain", 0, spared(draw, func() {
			for _, a := range addrs {
				v, _ := peer.Lookup(a)
				sink += uint64(v)
			}
		})},
	}
}

// snortRows has 450 automata with 52 random patterns each, and batches of 8192 packets of up to 600
// bytes; times are those of a packet.
func snortRows(r *rand.Rand) []row {
	letters := []byte("abcdefgh")
	text := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return b
	}
	lists := make([][][]byte, 450)
	peers := make([]*ahocorasick.Matcher, len(lists))
	for i := range lists {
		for range 52 {
			lists[i] = append(lists[i], text(8+r.IntN(12)))
		}
		peers[i] = ahocorasick.NewMatcher(lists[i])
	}
	set, err := own.New(lists)
	if err != nil {
		panic(err) // no pattern is empty
	}
	packets := make([]own.Packet, 8192)
	for i := range packets {
		packets[i] = own.Packet{DFA: r.IntN(len(lists)), Data: text(1 + r.IntN(600))}
	}
	var scratch []int32
	found := func(_, _, _ int) { sink++ }
	scan := func(fn func()) func(time.Duration) float64 {
		return func(each time.Duration) float64 { return timed(each, len(packets), fn) }
	}
	return []row{
		{"Aho-Corasick plain", "", 0, scan(func() { set.Scan(packets, found) })},
		{"Aho-Corasick batched", "Aho-Corasick plain", 0,
			scan(func() { scratch = set.ScanBatch(packets, scratch, found) })},
		{"Aho-Corasick cloudflare", "Aho-Corasick plain", 0, scan(func() {
			for _, p := range packets {
				sink += uint64(len(peers[p.DFA].Match(p.Data)))
			}
		})},
	}
}
