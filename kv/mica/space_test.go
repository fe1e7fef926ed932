package mica

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
)

// fill puts items of n bytes, of which 16 are the key, until the store refuses one, and returns how
// many there are.
func fill(t *testing.T, p *Partition, n int) (items int) {
	t.Helper()
	key, value := make([]byte, 16), make([]byte, n-16)
	for ; ; items++ {
		binary.LittleEndian.PutUint64(key, uint64(items))
		if err := p.Put(p.Hash(key), key, value); errors.Is(err, ErrFull) {
			return items
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPayload: a store that says it is full has its memory full. Of the memory given, keys and
// values have a share that follows from the header of 16 bytes and some 14 bytes of the index for
// each item. Of what the index leaves, items with their headers have 99 %.
func TestPayload(t *testing.T) {
	const memory = 16 << 20
	for _, c := range []struct {
		size, told int // bytes of key and value, and what Config.ItemSize says of them
		payload    float64
	}{
		{32, 32, 0.515}, {33, 33, 0.470}, {48, 48, 0.615}, {64, 64, 0.680}, {100, 100, 0.745},
		{128, 128, 0.808}, {200, 200, 0.868}, {256, 256, 0.893}, {344, 344, 0.920},
		{500, 500, 0.935}, {1000, 1000, 0.968}, {1048, 1048, 0.968}, {4000, 4000, 0.990},
		{10_000, 10_000, 0.990}, {30_000, 30_000, 0.990}, {100_000, 100_000, 0.980},
		// Smaller items than it was told of have their buckets from the memory of items, and larger
		// ones leave a part of the index unused.
		{32, 48, 0.520}, {64, 500, 0.680}, {1000, 48, 0.840}, {100_000, 48, 0.840},
	} {
		p, err := New(Config{Memory: memory, Mode: Store, ItemSize: c.told, NoHugepages: true})
		if err != nil {
			t.Fatal(err)
		}
		n := fill(t, p, c.size)
		st := p.Stats()
		payload := float64(n*c.size) / memory
		items := float64(n*int(units(16, c.size-16, 0)*unit)) / float64(st.Capacity)
		least := 0.99
		if c.size > 10_000 {
			least = 0.98 // the memory is no multiple of it
		}
		if payload < c.payload || items < least && c.told <= c.size {
			t.Errorf("%d bytes, told %d: %.3f are payload, want %.3f; %.3f of the items' memory, want %.2f",
				c.size, c.told, payload, c.payload, items, least)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestChurn: after many writes and deletes of items of all sizes a store has little memory that is
// too scattered to be used.
func TestChurn(t *testing.T) {
	const memory, largest = 4 << 20, 1000
	p := open(t, Config{Memory: memory, Mode: Store, ItemSize: largest / 2})
	r, keys := rand.New(rand.NewPCG(1, 2)), uint64(4*memory/largest)
	key, value := make([]byte, 16), make([]byte, largest)
	for i := range 20 * keys {
		binary.LittleEndian.PutUint64(key, r.Uint64N(keys))
		if i%3 == 0 {
			_ = p.Delete(p.Hash(key), key, 0) // if it is there
		} else {
			_ = p.Put(p.Hash(key), key, value[:r.IntN(largest)]) // it may be full
		}
	}
	for err := error(nil); err == nil; keys++ {
		binary.LittleEndian.PutUint64(key, keys)
		err = p.Put(p.Hash(key), key, value[:r.IntN(largest)])
	}
	if st := p.Stats(); float64(st.Bytes) < 0.85*float64(st.Capacity) {
		t.Errorf("full with %d bytes of %d", st.Bytes, st.Capacity)
	}
}

// TestMemoryComesBack: a store without items has all of its memory in one piece, extra buckets
// included.
func TestMemoryComesBack(t *testing.T) {
	p := open(t, Config{Memory: 1 << 20, Mode: Store})
	before := p.Stats()
	n := fill(t, p, 48)
	if st := p.Stats(); st.Extra == 0 || st.Index <= before.Index {
		t.Errorf("no extra buckets: %+v", st)
	}
	key := make([]byte, 16)
	for i := range n {
		binary.LittleEndian.PutUint64(key, uint64(i))
		if err := p.Delete(p.Hash(key), key, 0); err != nil {
			t.Fatal(err)
		}
	}
	st := p.Stats()
	if st.Index != before.Index || st.Capacity != before.Capacity || st.Extra != 0 {
		t.Errorf("%+v, want %+v", st, before)
	}
	if err := p.Put(p.Hash(key), key, make([]byte, st.Capacity-32)); err != nil {
		t.Error(err)
	}
}

// TestHoles: small items find room where larger ones were, and so do the extra buckets for them.
func TestHoles(t *testing.T) {
	p := open(t, Config{Memory: 1 << 20, Mode: Store, ItemSize: 200})
	n := fill(t, p, 200)
	key := make([]byte, 16)
	for i := 0; i < n; i += 2 {
		binary.LittleEndian.PutUint64(key, uint64(i))
		if err := p.Delete(p.Hash(key), key, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := n; ; i++ {
		binary.LittleEndian.PutUint64(key, uint64(i))
		if p.Put(p.Hash(key), key, nil) != nil {
			break
		}
	}
	if st := p.Stats(); float64(st.Bytes) < 0.95*float64(st.Capacity) {
		t.Errorf("full with %d bytes of %d", st.Bytes, st.Capacity)
	}
}

// TestLastBlocks: of free blocks of nearly the same size those that are large enough are found,
// when there are no larger ones.
func TestLastBlocks(t *testing.T) {
	p := open(t, Config{Memory: 1 << 20, Mode: Store, ItemSize: 312})
	sizes := [2]int{304 - 16, 312 - 16} // 40 and 41 units, which are in one list
	key, n := make([]byte, 16), 0
	put := func(size int) error {
		binary.LittleEndian.PutUint64(key, uint64(n))
		n++
		return p.Put(p.Hash(key), key, make([]byte, size))
	}
	for put(sizes[n%2]) == nil {
	}
	for put(8) == nil { // what is left
	}
	const free = 20
	for _, first := range []int{1, 4} { // the smaller ones come first in the list; no neighbours
		for i := range free {
			binary.LittleEndian.PutUint64(key, uint64(6*i+first))
			if err := p.Delete(p.Hash(key), key, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range free {
		if err := put(sizes[1]); err != nil {
			t.Fatalf("item %d: %v", i, err)
		}
	}
}

// TestWhatIsFull: a store that was told of much larger items says that its index is full.
func TestWhatIsFull(t *testing.T) {
	p := open(t, Config{Memory: 1 << 20, Mode: Store, ItemSize: 4000})
	var err error
	for i := 0; err == nil; i++ {
		err = put(t, p, i)
	}
	st := p.Stats()
	if err != ErrFullIndex || !errors.Is(err, ErrFull) || st.Fulls != 1 || st.IndexFulls != 1 {
		t.Errorf("%v: %+v", err, st)
	}
}

// TestGrowInPlace: in a full store an item gets a longer value if the memory beside it is free.
func TestGrowInPlace(t *testing.T) {
	for _, free := range []int{4, 6} { // before it, behind it
		p := open(t, Config{Memory: minMemory, Mode: Store})
		n := 0
		for put(t, p, n) == nil {
			n++
		}
		if err := p.Delete(spread(name(free)), name(free), 0); err != nil {
			t.Fatal(err)
		}
		long := make([]byte, 64+32)
		if err := p.Put(spread(name(5)), name(5), long); err != nil {
			t.Errorf("without %d: %v", free, err)
		}
		if err := p.Put(spread(name(5)), name(5), append(long, 1)); err != ErrFullItems {
			t.Errorf("a byte more: %v", err)
		}
		if it, _ := p.Get(spread(name(5)), name(5)); len(it.Value) != len(long) {
			t.Errorf("%d bytes", len(it.Value))
		}
		checkAll(t, p, spread)
	}
}

// expire fills a store with items of n bytes that expire at 20, and then tells it that time.
func expire(t *testing.T, p *Partition, n int) (items int) {
	t.Helper()
	p.SetNow(10)
	key, value := make([]byte, 16), make([]byte, n-16)
	for ; ; items++ {
		binary.LittleEndian.PutUint64(key, uint64(items))
		w := Write{Hash: p.Hash(key), Key: key, Value: value, Expires: 20}
		if items%64 == 7 {
			w.Expires = 0
		}
		if _, err := p.Write(&w); err != nil {
			break
		}
	}
	p.hash = nil
	p.SetNow(20)
	return items
}

// TestLargeAmongExpired: a store that is full of large items past their time, but for a few, takes
// new ones at once.
func TestLargeAmongExpired(t *testing.T) {
	p := open(t, Config{Memory: 64 << 20, Mode: Store})
	const size = 500_000
	for i := range expire(t, p, size) * 9 / 10 {
		key := name(i)
		if err := p.Put(p.Hash(key), key, make([]byte, size-16)); err != nil {
			t.Fatalf("item %d: %v", i, err)
		}
	}
}

// TestLargeAmongSmallExpired: a write that needs the memory of many small items past their time
// looks at some of them, and so succeeds when it has been tried often enough.
func TestLargeAmongSmallExpired(t *testing.T) {
	p := open(t, Config{Memory: 4 << 20, Mode: Store})
	n := expire(t, p, 48)
	tries := 1
	for p.Put(p.Hash(name(1)), name(1), make([]byte, 4000)) != nil {
		tries++
	}
	const atOnce = 512 // blocks that a write looks at
	if most := 2*n/atOnce + 2; tries > most {
		t.Errorf("%d tries with %d items, want %d at most", tries, n, most)
	}
	if st := p.Stats(); st.Expired > uint64(tries*atOnce) || st.Expired < 4000/64-1 {
		t.Errorf("%d items were removed by %d tries", st.Expired, tries)
	}
	// There is no room for this one among those that stay.
	for range 5 {
		before := p.Stats()
		err := p.Put(p.Hash(name(2)), name(2), make([]byte, 100_000))
		if found := p.Stats().Expired - before.Expired; err != ErrFullItems || found > atOnce {
			t.Errorf("%v, %d items were removed", err, found)
		}
	}
}

// TestSweepEnds: a round of sweeps finds all items past their time, whatever the size of the index,
// and no sweep looks at anything before the first one is.
func TestSweepEnds(t *testing.T) {
	for _, cfg := range []Config{{Mode: Store}, {Mode: Store, ItemSize: 16}, {}} {
		cfg.Memory = 8 << 20
		p := open(t, cfg)
		p.hash = nil
		const items = 1000
		p.SetNow(10)
		for i := range items {
			w := Write{Hash: p.Hash(name(i)), Key: name(i), Value: name(i)}
			if i%2 == 0 {
				w.Expires = 20
			}
			if _, err := p.Write(&w); err != nil {
				t.Fatal(err)
			}
		}
		if _, found := p.Touch(p.Hash(name(0)), name(0), 30); !found {
			t.Error("lost")
		}
		if p.SetNow(19); p.Sweep(1) {
			t.Errorf("%v: nothing has expired", cfg.Mode)
		}
		for _, round := range []struct {
			now  uint32
			left uint64
		}{{20, items/2 + 1}, {30, items / 2}} {
			p.SetNow(round.now)
			steps := 1
			for p.Sweep(1) {
				steps++
			}
			most := 2*items + 4
			if cfg.Mode == Cache {
				most = 2 * int(p.index)
			}
			if st := p.Stats(); st.Items != round.left || steps > most {
				t.Errorf("%v: at %d %d items are left, %d steps", cfg.Mode, round.now, st.Items, steps)
			}
		}
	}
}

// TestLaterTimes: a sweep finds an item that got its time after it was written.
func TestLaterTimes(t *testing.T) {
	for _, mode := range []Mode{Cache, Store} {
		for name, end := range map[string]func(p *Partition, h KeyHash, key []byte){
			"touch": func(p *Partition, h KeyHash, key []byte) { p.Touch(h, key, 20) },
			"change": func(p *Partition, h KeyHash, key []byte) {
				p.Change(h, key, Change{Expire: true, Expires: 20})
			},
			"write": func(p *Partition, h KeyHash, key []byte) {
				_, _ = p.Write(&Write{Hash: h, Key: key, Expires: 20})
			},
		} {
			p := open(t, Config{Memory: minMemory, Mode: mode})
			p.hash = nil
			p.SetNow(10)
			key := []byte("key")
			if _, err := p.Write(&Write{Hash: p.Hash(key), Key: key}); err != nil {
				t.Fatal(err)
			}
			end(p, p.Hash(key), key)
			p.SetNow(20)
			for p.Sweep(1) {
			}
			if st := p.Stats(); st.Items != 0 || st.Expired != 1 {
				t.Errorf("%v, %s: %+v", mode, name, st)
			}
		}
	}
}
