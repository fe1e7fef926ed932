package mica

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
)

// model allows the right answers of a partition: a hit returns the last item of the key, and a lost
// item stays lost. A store loses nothing.
type model struct {
	t       testing.TB
	p       *Partition
	r       *rand.Rand
	hash    func([]byte) KeyHash
	keys    int
	longest int // bytes of a value
	items   map[string]Item
	lost    int
	full    int
}

func newModel(t testing.TB, cfg Config, seed uint64) *model {
	t.Helper()
	cfg.NoHugepages = true
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	p.hash = plain
	return &model{t: t, p: p, r: rand.New(rand.NewPCG(seed, 1)), hash: plain, keys: 500,
		longest: 200, items: map[string]Item{}}
}

func (m *model) key() []byte {
	n := m.r.IntN(m.keys)
	return fmt.Appendf(nil, "%0*d", 1+n%40, n)
}

func (m *model) value() []byte {
	if m.r.IntN(8) == 0 {
		return strconv.AppendUint(nil, m.r.Uint64()>>m.r.IntN(64), 10)
	}
	n := m.r.IntN(m.longest + 1)
	return bytes.Clone(noise[m.r.IntN(len(noise)-n):][:n])
}

// noise is where values are cut from.
var noise = func() []byte {
	b, r := make([]byte, 1<<16), rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}()

// expected returns what the model has of a key.
func (m *model) expected(key []byte) (Item, bool) {
	it, ok := m.items[string(key)]
	if ok && it.Expires != 0 && it.Expires <= m.p.now {
		delete(m.items, string(key))
		return Item{}, false
	}
	return it, ok
}

// look compares what was found with the model.
func (m *model) look(key []byte, it Item, found bool) {
	m.t.Helper()
	want, there := m.expected(key)
	if found && there && want.Version == 0 { // of a Put, which does not return it
		if it.Version == 0 || it.Version > m.p.version {
			m.t.Fatalf("%q has version %d, the last one is %d", key, it.Version, m.p.version)
		}
		want.Version = it.Version
		m.items[string(key)] = want
	}
	switch {
	case found && !there:
		m.t.Fatalf("%q has %d bytes, though it was lost, removed, or past its time", key, len(it.Value))
	case there && !found:
		m.lose(key)
	case found && (!bytes.Equal(it.Value, want.Value) || it.Version != want.Version ||
		it.Flags != want.Flags || it.Expires != want.Expires):
		m.t.Fatalf("%q has %+v, want %+v", key, it, want)
	}
}

func (m *model) lose(key []byte) {
	m.t.Helper()
	if m.p.mode == Store {
		m.t.Fatalf("%q is lost", key)
	}
	delete(m.items, string(key))
	m.lost++
}

// sync makes the model lose a key if the partition has.
func (m *model) sync(key []byte) (Item, bool) {
	m.t.Helper()
	it, ok := m.p.Get(m.hash(key), key)
	m.look(key, it, ok)
	return m.expected(key)
}

func (m *model) set(key, value []byte, flags, expires uint32, version uint64) {
	m.items[string(key)] = Item{Value: bytes.Clone(value), Version: version, Flags: flags,
		Expires: expires}
}

// fails compares an error with what it must be; a store may be full.
func (m *model) fails(err, want error) bool {
	m.t.Helper()
	if errors.Is(err, ErrFull) && m.p.mode == Store {
		m.full++
		return true
	}
	if err != want {
		m.t.Fatalf("%v, want %v", err, want)
	}
	return err != nil
}

func (m *model) write() {
	m.t.Helper()
	key := m.key()
	w := Write{Hash: m.hash(key), Key: key, Value: m.value(), If: Condition(m.r.IntN(4))}
	if m.r.IntN(4) == 0 {
		w.Flags = m.r.Uint32()
	}
	if m.r.IntN(4) == 0 {
		w.Expires = m.p.now + uint32(m.r.IntN(5)) // some at once
	}
	if m.r.IntN(2) == 0 {
		w.If = Always
	}
	var want error
	if w.If != Always { // without a lookup before, others
		old, there := m.sync(key)
		w.Version = old.Version + uint64(m.r.IntN(2))
		switch {
		case w.If == IfAbsent && there:
			want = ErrExists
		case w.If != IfAbsent && !there:
			want = ErrNotFound
		case w.If == IfVersion && old.Version != w.Version:
			want = ErrVersion
		}
	}
	version, err := m.p.Write(&w)
	if !m.fails(err, want) {
		m.set(key, w.Value, w.Flags, w.Expires, version)
	}
}

// puts writes some items without a look at any of them.
func (m *model) puts() {
	m.t.Helper()
	for range m.r.IntN(70) {
		key, value := m.key(), m.value()
		given := bytes.Clone(value)
		if !m.fails(m.p.Put(m.hash(key), key, given), nil) {
			m.set(key, value, 0, 0, 0)
		}
		clear(given) // it is the caller's again
		if m.r.IntN(200) == 0 {
			m.p.SetNow(m.p.now + 1)
		}
	}
	if m.r.IntN(4) == 0 {
		before := m.p.stats.Puts + uint64(m.p.later.n)
		if st := m.p.Stats(); st.Puts != before {
			m.t.Fatalf("%d items written, want %d", st.Puts, before)
		}
	}
}

func (m *model) change() {
	m.t.Helper()
	key := m.key()
	h := m.hash(key)
	old, there := m.sync(key)
	want := error(nil)
	if !there {
		want = ErrNotFound
	}
	switch m.r.IntN(4) {
	case 0:
		if !m.fails(m.p.Delete(h, key, 0), want) {
			delete(m.items, string(key))
		}
	case 1:
		expires := m.p.now + 1 + uint32(m.r.IntN(5))
		if it, ok := m.p.Touch(h, key, expires); ok != there {
			m.t.Fatalf("touched: %v, want %v", ok, there)
		} else if ok {
			m.set(key, old.Value, old.Flags, expires, old.Version)
			m.look(key, it, ok)
		}
	case 2:
		more, front := m.value(), m.r.IntN(2) == 0
		version, err := m.p.Concat(h, key, more, front, 0)
		if m.fails(err, want) {
			return
		}
		value := append(bytes.Clone(old.Value), more...)
		if front {
			value = append(more, old.Value...)
		}
		m.set(key, value, old.Flags, old.Expires, version)
	case 3:
		m.increment(h, key, old, want)
	}
}

func (m *model) increment(h KeyHash, key []byte, old Item, want error) {
	m.t.Helper()
	digits, _, _ := bytes.Cut(old.Value, []byte(" "))
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if want == nil && (err != nil || len(digits) > 20) {
		want = ErrNumber
	}
	delta, down := m.r.Uint64()>>m.r.IntN(64), m.r.IntN(2) == 0
	value, version, err := m.p.Increment(h, key, delta, down, 0)
	if m.fails(err, want) {
		return
	}
	if down {
		n -= min(n, delta)
	} else {
		n += delta
	}
	text := fmt.Appendf(nil, "%-*d", len(old.Value), n)
	if value != n {
		m.t.Fatalf("%d, want %d", value, n)
	}
	m.set(key, text, old.Flags, old.Expires, version)
}

func (m *model) batch() {
	m.t.Helper()
	list := make([]Lookup, m.r.IntN(80))
	hashes := make([]KeyHash, len(list))
	for i := range list {
		list[i].Key = m.key()
		list[i].Hash = m.hash(list[i].Key)
		hashes[i] = list[i].Hash
	}
	if m.r.IntN(2) == 0 {
		m.p.Warm(hashes)
	}
	m.p.GetBatch(list)
	for _, l := range list {
		m.look(l.Key, l.Item, l.Found)
	}
}

func (m *model) run(steps int) {
	m.t.Helper()
	for i := range steps {
		switch n := m.r.IntN(100); {
		case n < 2:
			m.puts()
		case n < 50:
			m.write()
		case n < 75:
			m.change()
		case n < 90:
			m.sync(m.key())
		case n < 96:
			m.batch()
		case n < 98:
			m.p.SetNow(m.p.now + uint32(m.r.IntN(2)))
		case n < 99:
			m.p.Sweep(m.r.IntN(20))
		default:
			if m.r.IntN(20) == 0 {
				m.p.Clear()
				clear(m.items)
			}
		}
		if i%64 == 0 {
			checkAll(m.t, m.p, m.hash)
		}
	}
	checkAll(m.t, m.p, m.hash)
	for key := range m.items {
		m.sync([]byte(key))
	}
	checkAll(m.t, m.p, m.hash)
}

// plain is a hash that is the same in each run.
func plain(key []byte) KeyHash    { return KeyHash(Hash(key)) }
func weak(key []byte) KeyHash     { return plain(key) & (3<<61 | 1<<32 | 7<<29) } // two tags
func constant(key []byte) KeyHash { return 5 << 32 }

// TestModel compares partitions of all kinds with a map.
func TestModel(t *testing.T) {
	steps := 15_000
	if testing.Short() {
		steps = 3_000
	}
	for _, c := range []struct {
		name    string
		cfg     Config
		hash    func([]byte) KeyHash
		keys    int
		longest int
		lossy   bool // it must lose something
	}{
		{"cache with room", Config{Memory: 1 << 20}, plain, 500, 200, false},
		{"cache", Config{Memory: 1 << 16}, plain, 1000, 200, true},
		{"cache, large items", Config{Memory: 1 << 16}, plain, 100, 20_000, true},
		{"cache, small index", Config{Memory: 1 << 16, ItemSize: 3000}, plain, 1000, 30, true},
		{"cache, least recently used", Config{Memory: 1 << 16, MoveToHead: 1}, plain, 1000, 200, true},
		{"cache, half", Config{Memory: 1 << 16, MoveToHead: 0.5}, plain, 700, 200, true},
		{"cache, two tags", Config{Memory: 1 << 16}, weak, 200, 60, true},
		{"cache, one hash", Config{Memory: 1 << 16}, constant, 30, 60, true},
		{"cache, narrow", Config{Memory: 1 << 16, offsetBits: 15}, plain, 1000, 200, true},
		{"cache, narrow, two tags, least recently used",
			Config{Memory: 1 << 16, offsetBits: 15, MoveToHead: 1}, weak, 300, 200, true},
		{"cache, narrow, large", Config{Memory: 1 << 16, offsetBits: 16}, plain, 100, 20_000, true},
		{"store", Config{Memory: 1 << 20, Mode: Store}, plain, 500, 200, false},
		{"store, full", Config{Memory: 1 << 16, Mode: Store}, plain, 1000, 200, false},
		{"store, large items", Config{Memory: 1 << 17, Mode: Store}, plain, 100, 20_000, false},
		{"store, two tags", Config{Memory: 1 << 18, Mode: Store}, weak, 200, 60, false},
		{"store, one hash", Config{Memory: 1 << 18, Mode: Store}, constant, 30, 60, false},
		{"store, one hash, short chains", Config{Memory: 1 << 18, Mode: Store, maxChain: 2},
			constant, 40, 60, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(t, c.cfg, uint64(len(c.name)))
			m.hash, m.p.hash, m.keys, m.longest = c.hash, c.hash, c.keys, c.longest
			m.run(steps)
			if c.lossy && m.lost == 0 || !c.lossy && m.lost > 0 {
				t.Errorf("%d of %d items lost: %+v", m.lost, m.p.stats.Puts, m.p.stats)
			}
			if m.p.stats.Hits < uint64(steps/50) {
				t.Errorf("%d hits only", m.p.stats.Hits)
			}
			if c.cfg.offsetBits > 0 && m.p.log.tail < 2*(m.p.mask+1) && !testing.Short() {
				t.Errorf("offsets went round %d times", m.p.log.tail/(m.p.mask+1))
			}
			if got := uint64(len(m.p.mem)); got > uint64(c.cfg.Memory) {
				t.Errorf("%d bytes, limit %d", got, c.cfg.Memory)
			}
		})
	}
}
