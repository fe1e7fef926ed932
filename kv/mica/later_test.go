package mica

import (
	"bytes"
	"testing"
)

// TestPutsWait: what a Put has returned for is there for every method that comes next.
func TestPutsWait(t *testing.T) {
	key, value := name(1), []byte("17")
	h := spread(key)
	for what, there := range map[string]func(p *Partition) bool{
		"Get": func(p *Partition) bool {
			it, ok := p.Get(h, key)
			return ok && bytes.Equal(it.Value, value)
		},
		"GetBatch": func(p *Partition) bool {
			list := []Lookup{{Hash: h, Key: key}}
			p.GetBatch(list)
			return list[0].Found && bytes.Equal(list[0].Item.Value, value)
		},
		"Touch":  func(p *Partition) bool { _, ok := p.Touch(h, key, 0); return ok },
		"Delete": func(p *Partition) bool { return p.Delete(h, key, 0) == nil },
		"Add":    func(p *Partition) bool { return p.Add(h, key, value) == ErrExists },
		"Concat": func(p *Partition) bool {
			_, err := p.Concat(h, key, value, true, 0)
			return err == nil
		},
		"Increment": func(p *Partition) bool {
			n, _, err := p.Increment(h, key, 1, false, 0)
			return err == nil && n == 18
		},
		"Stats": func(p *Partition) bool { st := p.Stats(); return st.Items == 1 && st.Puts == 1 },
		"Clear": func(p *Partition) bool {
			p.Clear()
			_, ok := p.Get(h, key)
			return !ok && p.Stats().Puts == 1
		},
		"Sweep": func(p *Partition) bool { p.Sweep(1); return p.stats.Items == 1 },
	} {
		p := open(t, Config{Memory: 1 << 16})
		if err := p.Put(h, key, value); err != nil {
			t.Fatal(err)
		}
		if p.stats.Items != 0 {
			t.Errorf("%s: the Put did not wait", what)
		}
		if !there(p) {
			t.Errorf("%s does not see the Put before it", what)
		}
		checkAll(t, p, spread)
	}
}

// TestPutsWaitTogether: the last of several Puts of a key counts, and no more wait than there is
// room for, in number and in bytes.
func TestPutsWaitTogether(t *testing.T) {
	for _, size := range []int{0, 1, 100, laterItem - 16, laterItem - 15} {
		p := open(t, Config{Memory: 1 << 20})
		const n = 200
		value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, size) }
		waited := 0
		for i := range n {
			key := name(i % 50)
			if err := p.Put(spread(key), key, value(i)); err != nil {
				t.Fatal(err)
			}
			waited = max(waited, p.later.n)
		}
		want := min(maxLater, laterBytes/(16+size))
		if size+16 > laterItem {
			want = 0
		}
		if waited != want {
			t.Errorf("values of %d bytes: %d Puts waited, want %d", size, waited, want)
		}
		for i := n - 50; i < n; i++ {
			key := name(i % 50)
			if it, ok := p.Get(spread(key), key); !ok || !bytes.Equal(it.Value, value(i)) {
				t.Fatalf("value of %d bytes %d: %v, %v", size, i, it.Value, ok)
			}
		}
		checkAll(t, p, spread)
	}
}

// TestPutsWithoutWaiting: a store says at once that it is full, and readers see a Put at once.
func TestPutsWithoutWaiting(t *testing.T) {
	for _, cfg := range []Config{{Mode: Store}, {Readers: true}} {
		cfg.Memory = 1 << 16
		p := open(t, cfg)
		if err := put(t, p, 1); err != nil || p.stats.Items != 1 {
			t.Errorf("%+v: %d items, %v", cfg, p.stats.Items, err)
		}
	}
	p := open(t, Config{Memory: 1 << 16})
	if p.Put(1, nil, nil) != ErrKey || p.Put(1, make([]byte, MaxKey+1), nil) != ErrKey {
		t.Error("a key without bytes, or with too many, was taken")
	}
}

// TestPutsKeepViews: what a Get returned stays while the counters are read.
func TestPutsKeepViews(t *testing.T) {
	p := open(t, Config{Memory: 1 << 16, MoveToHead: 1})
	for i := range 2000 {
		if err := put(t, p, i); err != nil {
			t.Fatal(err)
		}
		it, ok := p.Get(spread(name(i/2)), name(i/2))
		_ = p.Stats()
		if ok && !bytes.Equal(it.Value, bytes.Repeat(name(i/2), 2)) {
			t.Fatalf("key %d has %q", i/2, it.Value)
		}
	}
}
