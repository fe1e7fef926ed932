package mica

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func open(t testing.TB, cfg Config) *Partition {
	t.Helper()
	return newModel(t, cfg, 1).p
}

func name(i int) []byte { return fmt.Appendf(nil, "key-%012d", i) }

// spread is a hash of names that puts those of a range into all buckets evenly.
func spread(key []byte) KeyHash {
	i, _ := strconv.Atoi(string(key[4:]))
	return KeyHash(uint32(i)*2654435769) | KeyHash(i&0xFFFF)<<32 // by the golden ratio
}

// put stores a value of 32 bytes that follows from the key.
func put(t testing.TB, p *Partition, i int) error {
	t.Helper()
	return p.Put(spread(name(i)), name(i), bytes.Repeat(name(i), 2))
}

func has(t testing.TB, p *Partition, i int) bool {
	t.Helper()
	it, ok := p.Get(spread(name(i)), name(i))
	if ok && !bytes.Equal(it.Value, bytes.Repeat(name(i), 2)) {
		t.Fatalf("key %d has %q", i, it.Value)
	}
	return ok
}

// TestFirstOut: a cache forgets the oldest items and no others, and an item takes a line.
func TestFirstOut(t *testing.T) {
	p := open(t, Config{Memory: 1 << 20, ItemSize: 8}) // an index with room
	const n = 50_000
	for i := range n {
		if err := put(t, p, i); err != nil {
			t.Fatal(err)
		}
	}
	fit := int(p.stats.Capacity / 64)
	for i := range n {
		if there := has(t, p, i); there != (i >= n-fit) {
			t.Fatalf("key %d of %d is there: %v; %d fit", i, n, there, fit)
		}
	}
	if st := p.Stats(); st.Items != uint64(fit) || st.Evictions != n-uint64(fit) ||
		st.Bytes != st.Capacity || st.IndexEvictions != 0 || st.Hits != st.Items {
		t.Errorf("%+v", st)
	}
}

// TestMoveToHead: an item that is asked for stays if reading moves it, and goes if not.
func TestMoveToHead(t *testing.T) {
	for _, part := range []float64{0, 0.25, 1} {
		p := open(t, Config{Memory: 1 << 20, MoveToHead: part, ItemSize: 8})
		put(t, p, -1)
		stays := true
		for i := range 40_000 {
			put(t, p, i)
			if i%1000 == 0 {
				stays = has(t, p, -1)
			}
		}
		if moves := p.Stats().Moves; stays != (part > 0) || (moves > 0) != (part > 0) || moves > 41 {
			t.Errorf("part %v: there: %v, moved %d times", part, stays, moves)
		}
		checkAll(t, p, spread)
	}
}

// TestRewriteMoves: an old item that is written again with the same size is as new as any other
// item, and not forgotten with those that were written beside it at first.
func TestRewriteMoves(t *testing.T) {
	for _, part := range []float64{0.25, 1} {
		p := open(t, Config{Memory: 1 << 20, MoveToHead: part, ItemSize: 8})
		fit := int(p.Stats().Capacity / 64)
		put(t, p, -1)
		for i := range fit * 9 / 10 { // now it is in the old part
			put(t, p, i)
		}
		put(t, p, -1)
		for i := range fit * 9 / 10 {
			put(t, p, fit+i)
		}
		if !has(t, p, -1) {
			t.Errorf("part %v: forgotten before older items", part)
		}
		checkAll(t, p, spread)
	}
}

// TestViews: what a batch returned is there until the next call, also if all of it is to be moved.
func TestViews(t *testing.T) {
	p := open(t, Config{Memory: 1 << 16, MoveToHead: 1, ItemSize: 8})
	n := int(p.stats.Capacity/64) + 5
	for i := range n {
		put(t, p, i)
	}
	var list [64]Lookup
	for i := range list {
		list[i].Key = name(n - int(p.stats.Capacity/64) + i) // the oldest
		list[i].Hash = spread(list[i].Key)
	}
	p.GetBatch(list[:])
	for _, l := range list {
		if !l.Found || !bytes.Equal(l.Item.Value, bytes.Repeat(l.Key, 2)) {
			t.Fatalf("%q: %v, %q", l.Key, l.Found, l.Item.Value)
		}
	}
	if p.Stats().Moves != 0 {
		t.Error("moved during the batch")
	}
	p.Sweep(0)
	if m := p.Stats().Moves; m != 63 { // the oldest one would be overwritten by itself
		t.Errorf("%d moves", m)
	}
	checkAll(t, p, spread)
}

// TestFull: a full store refuses and keeps what it has; deletes give memory back, all of it.
func TestFull(t *testing.T) {
	p := open(t, Config{Memory: 1 << 18, Mode: Store})
	for round := range 3 {
		n := 0
		for put(t, p, n) == nil {
			n++
		}
		if err := put(t, p, n); err != ErrFullItems {
			t.Fatal(err)
		}
		if n != int(p.stats.Capacity/64) {
			t.Errorf("%d items in %d bytes", n, p.stats.Capacity)
		}
		long := bytes.Repeat(name(0), 20)
		if err := p.Put(spread(name(0)), name(0), long); err != ErrFullItems || !has(t, p, 0) {
			t.Errorf("a longer value: %v", err)
		}
		for i := range n {
			if !has(t, p, i) {
				t.Fatalf("key %d is lost", i)
			}
		}
		for i := range n {
			i = i * 7919 % n // a prime: in another order
			if err := p.Delete(spread(name(i)), name(i), 0); err != nil {
				t.Fatalf("key %d of %d: %v", i, n, err)
			}
		}
		if st := p.Stats(); st.Items != 0 || st.Bytes != 0 || st.Extra != 0 || st.Fulls == 0 {
			t.Fatalf("round %d: %+v", round, st)
		}
		checkAll(t, p, spread)
	}
	value := make([]byte, int(p.stats.Capacity)-headBytes-16)
	if err := p.Put(1, name(1), value); err != nil {
		t.Errorf("one item of all the memory: %v", err)
	}
	if err := p.Put(1, name(1), append(value, 1)); err != ErrTooLarge {
		t.Errorf("a byte more: %v", err)
	}
}

// TestFullOfExpired: a write finds memory that only items past their time hold.
func TestFullOfExpired(t *testing.T) {
	p := open(t, Config{Memory: minMemory, Mode: Store})
	p.hash = spread
	p.SetNow(10)
	for i := 0; ; i++ {
		w := Write{Hash: spread(name(i)), Key: name(i), Value: name(i), Expires: 20}
		if _, err := p.Write(&w); err != nil {
			break
		}
	}
	if p.SetNow(20); put(t, p, 0) != nil || put(t, p, -1) != nil {
		t.Error("full of items past their time")
	}
	p.Sweep(1 << 20)
	if st := p.Stats(); st.Items != 2 {
		t.Errorf("%+v", st)
	}
	p = open(t, Config{Memory: minMemory, Mode: Store, maxChain: 1})
	for i := range 2 * ways {
		if _, err := p.Write(&Write{Hash: 7, Key: name(i), Expires: 20}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Put(7, name(-1), nil); err != ErrFullIndex {
		t.Error(err)
	}
	if p.SetNow(20); p.Put(7, name(-1), nil) != nil {
		t.Error("a chain full of items past their time")
	}
}

// TestChains: keys with one hash fill a bucket and its chain, and then are refused by name.
func TestChains(t *testing.T) {
	p := open(t, Config{Memory: 1 << 18, Mode: Store, maxChain: 3})
	n := 0
	for p.Put(7, name(n), nil) == nil {
		n++
	}
	if n != 4*ways || p.Stats().Extra != 3 || put(t, p, 0) != nil {
		t.Errorf("%d keys, %+v", n, p.Stats())
	}
	for i := range n {
		if err := p.Delete(7, name(i), 0); err != nil {
			t.Error(err)
		}
	}
	if p.Stats().Extra != 0 {
		t.Errorf("%d extra buckets of nothing", p.Stats().Extra)
	}
	// No memory for an item: the extra bucket that was to have it goes back.
	p.Clear()
	rest := make([]byte, int(p.stats.Capacity)-ways*32-headBytes-16)
	if err := p.Put(1<<31, name(0), rest); err != nil {
		t.Fatal(err)
	}
	for i := range ways {
		if err := p.Put(7, name(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Put(7, name(n), nil); err != ErrFullItems || p.Stats().Extra != 0 {
		t.Errorf("%v, %d extra buckets", err, p.Stats().Extra)
	}
}

// TestExpiredTwice: a batch asks twice for an item past its time, whose memory becomes free, and
// for no key at all under its hash.
func TestExpiredTwice(t *testing.T) {
	for _, mode := range []Mode{Cache, Store} {
		p := open(t, Config{Memory: 1 << 18, Mode: mode})
		w := Write{Hash: 5 << 32, Key: name(1), Value: name(2), Expires: 1}
		if _, err := p.Write(&w); err != nil {
			t.Fatal(err)
		}
		p.SetNow(1)
		list := []Lookup{{Hash: 5 << 32, Key: name(1)}, {Hash: 5 << 32}, {Hash: 5 << 32, Key: name(1)}}
		p.GetBatch(list)
		for i, l := range list {
			if l.Found {
				t.Errorf("%v: lookup %d found %q", mode, i, l.Item.Value)
			}
		}
		if st := p.Stats(); st.Items != 0 || st.Expired != 1 || st.Misses != 3 {
			t.Errorf("%v: %+v", mode, st)
		}
	}
}

// TestLengths: keys and values of all lengths come back, and those that are too long are refused.
func TestLengths(t *testing.T) {
	for _, mode := range []Mode{Cache, Store} {
		p := open(t, Config{Memory: 3 << 20, Mode: mode})
		rapid.Check(t, func(t *rapid.T) {
			key := bytes.Repeat([]byte{1}, rapid.IntRange(0, MaxKey+2).Draw(t, "key"))
			edge := rapid.SampledFrom([]int{0, 40, 64, 512, 1 << 16, MaxValue}).Draw(t, "edge")
			value := bytes.Repeat([]byte{2}, max(edge+rapid.IntRange(-20, 2).Draw(t, "off"), 0))
			flags := rapid.Uint32Range(0, 1).Draw(t, "flags")
			w := Write{Hash: plain(key), Key: key, Value: value, Flags: flags}
			var want error
			if len(key) < MinKey || len(key) > MaxKey {
				want = ErrKey
			} else if len(value) > MaxValue {
				want = ErrValue
			}
			_, err := p.Write(&w)
			it, ok := p.Get(w.Hash, key)
			same := bytes.Equal(it.Value, value) && it.Flags == flags
			if err != want || ok != (want == nil) || ok && !same {
				t.Fatalf("%d, %d bytes: %v, %v, found %v", len(key), len(value), err, want, ok)
			}
			if want == nil && p.Delete(w.Hash, key, it.Version+1) != ErrVersion {
				t.Fatal("deleted with another version")
			}
			_ = p.Delete(w.Hash, key, 0)
		})
		checkAll(t, p, plain)
	}
}

// TestVersions: versions are new each time, begin where they are told, and go round.
func TestVersions(t *testing.T) {
	p := open(t, Config{Memory: minMemory, FirstVersion: versionMask - 1})
	for _, want := range []uint64{versionMask, 1, 2} {
		v, err := p.Write(&Write{Hash: 1, Key: name(1)})
		if v != want || err != nil {
			t.Errorf("version %d, %v, want %d", v, err, want)
		}
	}
	if v, err := p.CompareAndSwap(1, name(1), name(2), 2); v != 3 || err != nil {
		t.Errorf("version %d, %v", v, err)
	}
	if _, err := p.CompareAndSwap(1, name(1), name(2), 2); err != ErrVersion {
		t.Error(err)
	}
	if _, err := p.CompareAndSwap(2, name(2), name(2), 2); err != ErrNotFound {
		t.Error(err)
	}
	if err := p.Add(1, name(1), nil); err != ErrExists {
		t.Error(err)
	}
	for _, v := range []uint64{1, 0} { // another version, none
		_, err := p.Concat(1, name(1), nil, true, v)
		_, _, err2 := p.Increment(1, name(1), 1, true, v)
		want, want2 := error(nil), ErrNumber
		if v == 1 {
			want, want2 = ErrVersion, ErrVersion
		}
		if err != want || err2 != want2 {
			t.Error(v, err, err2)
		}
	}
	if _, err := p.Concat(1, name(1), make([]byte, MaxValue), true, 0); err != ErrValue {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	beyond := minMemory
	beyond <<= 31 // 2^47; 0 where int has 32 bits, which is refused too
	for _, cfg := range []Config{{}, {Memory: minMemory - 1}, {Memory: -1}, {Memory: beyond},
		{Memory: 1 << 20, Mode: 2}, {Memory: 1 << 20, MoveToHead: 1.1}, {Memory: 1 << 20, ItemSize: -1},
		{Memory: 1 << 20, Mode: Store, MoveToHead: 1}, {Memory: 1 << 20, offsetBits: 12}} {
		if p, err := New(cfg); !errors.Is(err, ErrConfig) || p != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	for _, memory := range []int{8 << 20, 9<<20 + 5, 1 << 24} {
		for _, mode := range []Mode{Cache, Store} {
			p, err := New(Config{Memory: memory, Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			if st := p.Stats(); st.Memory > uint64(memory) || st.Memory < uint64(memory-bucketSize) ||
				p.Mode() != mode {
				t.Errorf("%d bytes: %+v", memory, st)
			}
			if err := errors.Join(p.Close(), p.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	if got := fmt.Sprint(Cache, " ", Store); !strings.Contains(got, "cache store") {
		t.Error(got)
	}
}

// TestHash: the hash is part of the protocol, and its parts are spread well over like keys.
func TestHash(t *testing.T) {
	for key, want := range golden {
		if h := Hash([]byte(key)); h != want {
			t.Errorf("%q: %#x", key, h)
		}
	}
	const n, parts = 1 << 16, 16
	var partitions, buckets [parts]int
	tags := map[uint64]int{}
	for i := range n {
		h := Hash(name(i))
		partitions[PartitionOf(h, parts)]++
		buckets[h&(1<<32-1)*parts>>32]++
		tags[tagOf(KeyHash(h))]++
	}
	for i := range parts {
		if a, b := partitions[i]-n/parts, buckets[i]-n/parts; max(a, -a, b, -b) > 400 { // six sigmas
			t.Errorf("part %d: %d of %d in partitions, %d in buckets", i, partitions[i], n, buckets[i])
		}
	}
	if len(tags) < 40_000 || tags[0] != 0 { // (1-1/e) * 65536 = 41426
		t.Errorf("%d tags", len(tags))
	}
	flips := 0
	for bit := range 128 {
		key := name(1)
		key[bit/8] ^= 1 << (bit % 8)
		flips += bits.OnesCount64(Hash(key) ^ Hash(name(1)))
	}
	if flips < 128*30 || flips > 128*34 {
		t.Errorf("one bit of a key changes %.1f bits", float64(flips)/128)
	}
	if PartitionOf(1<<64-1, MaxPartitions) != MaxPartitions-1 || PartitionOf(0, 3) != 0 {
		t.Error("the ends of the partitions")
	}
}

var golden = map[string]uint64{"": 0x41d7f73369ebd802, "a": 0xa7b765d67ea68469,
	"key":               0xa70a11bb2922b776,
	"12345678":          0x22bbaa22b632e765,
	"0123456789abcdef":  0x147213051849ac77,
	"0123456789abcdefg": 0xb8abd85453d4fcd5,
	"a key that is longer than two times sixteen": 0x5a208d7f97e0dfc}

// TestNoAllocations: operations on items of usual sizes allocate nothing.
func TestNoAllocations(t *testing.T) {
	for _, mode := range []Mode{Cache, Store} {
		p := open(t, Config{Memory: 1 << 20, Mode: mode})
		key, value := name(1), make([]byte, 32)
		h := p.Hash(key)
		var list [40]Lookup
		var hashes [40]KeyHash
		for i := range list {
			list[i], hashes[i] = Lookup{Hash: h, Key: key}, h
		}
		size := 0
		if n := testing.AllocsPerRun(200, func() {
			size = (size + 13) % 32
			_, _ = p.Write(&Write{Hash: h, Key: key, Value: value[:size], Flags: 1})
			p.Warm(hashes[:])
			p.GetBatch(list[:])
			_, _ = p.Get(h, key)
			_, _ = p.Touch(h, key, 0)
			_, _ = p.Concat(h, key, value[:1], true, 0)
			_ = p.Put(h, key, []byte("17"))
			_, _, _ = p.Increment(h, key, 1000, false, 0)
			_ = p.Delete(h, key, 0)
		}); n != 0 {
			t.Errorf("%v: %v allocations", mode, n)
		}
	}
}

func BenchmarkGetBatch(b *testing.B) {
	p := open(b, Config{Memory: 64 << 20})
	const n = 500_000
	for i := range n {
		_ = put(b, p, i)
	}
	keys := make([]Lookup, n)
	for i := range keys {
		keys[i].Key = name(i * 7919 % n)
		keys[i].Hash = spread(keys[i].Key)
	}
	for b.Loop() {
		p.GetBatch(keys[:32])
		keys = append(keys[32:], keys[:32]...)
	}
}
