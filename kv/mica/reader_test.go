package mica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// stamped returns the value of write number seq of a key: its length and all of its bytes follow
// from both.
func stamped(key, seq uint64) []byte {
	word := binary.LittleEndian.AppendUint64(nil, key<<40|seq)
	size := 8 + int(seq*7%200)
	if key >= large {
		size *= 50
	}
	return bytes.Repeat(word, size/8+1)[:size]
}

// large is the number from which on keys have large values.
const large = 900

// readAlong reads keys until the owner has ended. Each item that it finds is whole, and not older
// than the one before.
func readAlong(t *testing.T, r *Reader, hash func([]byte) KeyHash, keys int, ended *atomic.Bool,
	begun *sync.WaitGroup,
) {
	first := sync.OnceFunc(begun.Done)
	defer first()
	seen := make([]uint64, keys)
	look := func(i int, it *Item) {
		if len(it.Value) < 8 {
			t.Errorf("key %d: %d bytes", i, len(it.Value))
			return
		}
		seq := binary.LittleEndian.Uint64(it.Value) & (1<<40 - 1)
		if !bytes.Equal(it.Value, stamped(uint64(i), seq)) || it.Flags != uint32(seq%3) {
			t.Errorf("key %d, write %d: %d bytes, flags %d: %x", i, seq, len(it.Value), it.Flags, it.Value)
		}
		if seq < seen[i] {
			t.Errorf("key %d: write %d after %d", i, seq, seen[i])
		}
		seen[i] = seq
		first()
	}
	list := make([]Lookup, 40)
	for n := 0; !ended.Load(); n++ {
		if n%8 > 0 {
			i := n * 7919 % keys
			if it, ok := r.Get(hash(name(i)), name(i)); ok {
				look(i, &it)
			}
			continue
		}
		for j := range list {
			list[j].Key = name((n + j) % keys)
			list[j].Hash = hash(list[j].Key)
		}
		r.GetBatch(list)
		for j := range list {
			if list[j].Found {
				look((n+j)%keys, &list[j].Item)
			}
		}
	}
}

var crew = []struct {
	name string
	cfg  Config
	hash func([]byte) KeyHash
	keys int
}{
	{"cache", Config{Memory: 1 << 16}, plain, 700},
	{"cache with room", Config{Memory: 1 << 20}, plain, 50},
	{"cache, least recently used", Config{Memory: 1 << 16, MoveToHead: 1}, plain, 500},
	{"cache, narrow, two tags", Config{Memory: 1 << 16, offsetBits: 16}, weak, 200},
	{"cache, some large items", Config{Memory: 1 << 16}, plain, 1000},
	{"store", Config{Memory: 1 << 18, Mode: Store}, plain, 300},
	{"store, full, some large items", Config{Memory: 1 << 16, Mode: Store}, plain, 1000},
	{"store, one hash", Config{Memory: 1 << 18, Mode: Store}, constant, 60},
}

// TestReaders: readers beside the owner find whole items, in the order of their writes.
func TestReaders(t *testing.T) {
	steps := 20_000
	if testing.Short() {
		steps = 3_000
	}
	for _, c := range crew {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Readers, c.cfg.onHeap = true, true
			p := open(t, c.cfg)
			p.hash = c.hash
			var ended atomic.Bool
			var all, begun sync.WaitGroup
			for range 2 {
				r, err := p.NewReader()
				if err != nil {
					t.Fatal(err)
				}
				begun.Add(1)
				all.Go(func() { readAlong(t, r, c.hash, c.keys, &ended, &begun) })
			}
			for i := range c.keys {
				key := name(i)
				err := p.Put(c.hash(key), key, stamped(uint64(i), 0))
				if err != nil && !errors.Is(err, ErrFull) {
					t.Fatal(err)
				}
			}
			begun.Wait()
			own(t, p, c.hash, c.keys, steps)
			ended.Store(true)
			all.Wait()
			checkAll(t, p, c.hash)
		})
	}
}

// own is the owner: it writes, deletes, touches and forgets.
func own(t *testing.T, p *Partition, hash func([]byte) KeyHash, keys, steps int) {
	r := rand.New(rand.NewPCG(5, 6))
	for seq := range uint64(steps) {
		i := r.IntN(keys)
		key := name(i)
		h := hash(key)
		switch n := r.IntN(100); {
		case n < 70:
			w := Write{Hash: h, Key: key, Value: stamped(uint64(i), seq), Flags: uint32(seq % 3)}
			if n < 10 {
				w.Expires = p.now + 2
			}
			if _, err := p.Write(&w); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		case n < 85:
			if err := p.Delete(h, key, 0); err != nil && err != ErrNotFound {
				t.Fatal(err)
			}
		case n < 90:
			p.Get(h, key)
		case n < 95:
			p.Touch(h, key, p.now+uint32(r.IntN(3)))
		case n < 98:
			p.Sweep(r.IntN(10))
		case seq%37 == 0:
			p.Clear()
		default:
			p.SetNow(p.now + 1)
		}
		if seq%64 == 0 {
			runtime.Gosched() // a machine may have one core
		}
	}
}

// TestReaderMeets: a lookup that a change meets in the middle answers with what is there then.
func TestReaderMeets(t *testing.T) {
	key, other, value, changed := name(1), name(2), []byte("a value"), []byte("another")
	h := constant(key)
	put := func(p *Partition, key, value []byte) {
		if err := p.Put(h, key, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		mode Mode
		do   func(p *Partition)
		want []byte // nil: none
	}{
		{"in place", Cache, func(p *Partition) { put(p, key, changed) }, changed},
		{"in place, store", Store, func(p *Partition) { put(p, key, changed) }, changed},
		{"moved", Cache, func(p *Partition) { put(p, key, noise[:500]) }, noise[:500]},
		{"moved, store", Store, func(p *Partition) {
			put(p, key, noise[:500])
			put(p, other, changed) // where it was
		}, noise[:500]},
		{"deleted", Store, func(p *Partition) {
			_ = p.Delete(h, key, 0)
			put(p, other, changed)
		}, nil},
		{"forgotten", Store, func(p *Partition) {
			p.Clear()
			put(p, other, changed)
		}, nil},
		{"evicted", Cache, func(p *Partition) {
			for i := range 100 {
				k := fmt.Append(nil, "other ", i) // another bucket
				if err := p.Put(1<<31, k, noise[:1000]); err != nil {
					t.Fatal(err)
				}
			}
		}, nil},
		{"past its time", Cache, func(p *Partition) {
			p.Touch(h, key, 5)
			p.SetNow(5)
		}, nil},
	} {
		p := open(t, Config{Memory: 1 << 16, Mode: c.mode, Readers: true})
		put(p, key, value)
		r, err := p.NewReader()
		if err != nil {
			t.Fatal(err)
		}
		paused := 0
		r.pause = func() {
			if paused++; paused == 1 {
				c.do(p)
			}
		}
		it, ok := r.Get(h, key)
		if ok != (c.want != nil) || !bytes.Equal(it.Value, c.want) || paused == 0 {
			t.Errorf("%s: %v, %q, paused %d times", c.name, ok, it.Value, paused)
		}
	}
}

// TestReaderModel: a reader finds what the owner does, also of what has expired, and nothing of a
// partition without readers.
func TestReaderModel(t *testing.T) {
	for _, c := range crew {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Readers = true
			m := newModel(t, c.cfg, 7)
			m.hash, m.p.hash, m.keys = c.hash, c.hash, c.keys
			r, err := m.p.NewReader()
			if err != nil {
				t.Fatal(err)
			}
			for range 10 {
				m.run(100)
				for range 200 {
					key := m.key()
					h := m.hash(key)
					it, ok := r.Get(h, key)
					it.Value = bytes.Clone(it.Value)
					m.look(key, it, ok)
					if own, there := m.p.Get(h, key); there != ok || !bytes.Equal(own.Value, it.Value) {
						t.Fatalf("%q: %v, the owner's %v", key, ok, there)
					}
				}
			}
			if st := r.Stats(); st.Hits == 0 || st.Hits+st.Misses != 2000 || st.Retries != 0 {
				t.Errorf("%+v", st)
			}
			if _, ok := r.Get(m.hash(nil), nil); ok {
				t.Error("there is an empty key")
			}
		})
	}
	if _, err := open(t, Config{Memory: 1 << 16}).NewReader(); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

// TestReaderViews: values of a batch stay until the next lookup, and large ones are not kept.
func TestReaderViews(t *testing.T) {
	p := open(t, Config{Memory: 8 << 20, Readers: true, Mode: Store})
	var list []Lookup
	for i := range 70 {
		key := name(i)
		if err := p.Put(plain(key), key, bytes.Repeat(key, 1+i*50)); err != nil {
			t.Fatal(err)
		}
		list = append(list, Lookup{Hash: plain(key), Key: key})
	}
	r, err := p.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.GetBatch(list)
		for i, l := range list {
			if !l.Found || !bytes.Equal(l.Item.Value, bytes.Repeat(l.Key, 1+i*50)) {
				t.Fatalf("key %d: %v, %d bytes", i, l.Found, len(l.Item.Value))
			}
		}
	}
	if r.Get(plain(name(0)), name(0)); cap(r.words) > keepWords {
		t.Errorf("%d words are kept", cap(r.words))
	}
	if n := testing.AllocsPerRun(100, func() { r.GetBatch(list[:8]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// op is an operation of a history on a key: a write of a value, a delete (0), or a lookup.
type op struct {
	key   int
	read  bool
	value uint64
}

// TestReaderHistory: what the owner and readers do at once is linearizable.
func TestReaderHistory(t *testing.T) {
	register := porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, 4)
			for _, o := range history {
				k := o.Input.(op).key
				parts[k] = append(parts[k], o)
			}
			return parts
		},
		Init: func() any { return uint64(0) },
		Step: func(state, in, out any) (bool, any) {
			if o := in.(op); !o.read {
				return true, o.value
			}
			return out.(uint64) == state.(uint64), state
		},
	}
	for _, mode := range []Mode{Cache, Store} {
		p := open(t, Config{Memory: 1 << 18, Mode: mode, Readers: true, onHeap: true})
		var clock atomic.Int64
		var all sync.WaitGroup
		histories := make([][]porcupine.Operation, 4)
		log := func(who int, in op, run func() uint64) {
			from := clock.Add(1)
			out := run()
			histories[who] = append(histories[who], porcupine.Operation{ClientId: who, Input: in,
				Output: out, Call: from, Return: clock.Add(1)})
		}
		for who := 1; who < len(histories); who++ {
			r, err := p.NewReader()
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for i := range 400 {
					key := name(i % 4)
					log(who, op{key: i % 4, read: true}, func() uint64 {
						it, ok := r.Get(constant(key), key)
						if !ok {
							return 0
						}
						return binary.LittleEndian.Uint64(it.Value)
					})
				}
			})
		}
		for i := range uint64(400) {
			key := name(int(i*i) % 4)
			o := op{key: int(i*i) % 4, value: i + 1}
			if i%5 == 0 {
				o.value = 0
			}
			log(0, o, func() uint64 {
				if o.value == 0 {
					_ = p.Delete(constant(key), key, 0) // it may be gone
				} else if err := p.Put(constant(key), key, stamped(0, o.value)); err != nil {
					t.Error(err)
				}
				return 0
			})
		}
		all.Wait()
		var history []porcupine.Operation
		for _, h := range histories {
			history = append(history, h...)
		}
		if got := porcupine.CheckOperationsTimeout(register, history, time.Minute); got != porcupine.Ok {
			t.Errorf("%v: %v, %d operations", mode, got, len(history))
		}
	}
}

// Readers look keys up in goroutines of their own.
func ExamplePartition_NewReader() {
	p, err := New(Config{Memory: 1 << 20, Readers: true})
	if err != nil {
		panic(err)
	}
	r, err := p.NewReader()
	if err != nil {
		panic(err)
	}
	key := []byte("user:7")
	if err := p.Put(plain(key), key, []byte("Ada")); err != nil {
		panic(err)
	}
	found := make(chan string)
	go func() {
		it, _ := r.Get(plain(key), key) // the owner may write meanwhile
		found <- string(it.Value)
	}()
	fmt.Println(<-found, p.Close())
	// Output: Ada <nil>
}
