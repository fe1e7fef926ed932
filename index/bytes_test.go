package index_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/userspace-rpc/erpc/index"
)

// TestBytes compares random operations on a Bytes with a Go map.
func TestBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m, want := index.NewBytes(), map[string]string{}
	for i := range rounds(50_000) {
		key := randomKey(r)
		was, had := want[key]
		var old []byte
		var found bool
		var err error
		switch value := fmt.Sprint(i); r.IntN(4) {
		case 0:
			old, found, err = m.Put([]byte(key), []byte(value))
			want[key] = value
		case 1:
			old, found, err = m.PutIfAbsent([]byte(key), []byte(value))
			if !had {
				want[key] = value
			}
		case 2:
			old, found = m.Delete([]byte(key))
			delete(want, key)
		default:
			old, found = m.Get([]byte(key))
		}
		if string(old) != was || found != had || err != nil {
			t.Fatalf("operation %d: %q %v %v, want %q %v", i, old, found, err, was, had)
		}
	}
	if _, err := m.Check(); err != nil {
		t.Error(err)
	}
	sameBytes(t, m, want)
	if _, _, err := m.Put(make([]byte, index.MaxKey+1), nil); err != index.ErrKeyTooLong {
		t.Errorf("a long key: %v", err)
	}
}

func sameBytes(t *testing.T, m *index.Bytes, want map[string]string) {
	t.Helper()
	order := slices.Sorted(maps.Keys(want))
	var up, down []string
	var keys [][]byte
	for k, v := range m.Ascend(nil) {
		up = append(up, string(k))
		keys = append(keys, bytes.Clone(k), append([]byte("?"), k...))
		if want[string(k)] != string(v) {
			t.Errorf("key %q has %q", k, v)
		}
	}
	for k := range m.Descend(nil) {
		down = append(down, string(k))
	}
	slices.Reverse(down)
	if !slices.Equal(up, order) || !slices.Equal(down, order) || m.Len() != len(order) {
		t.Errorf("%d keys up, %d down, want %d", len(up), len(down), len(order))
	}
	values, ok := make([][]byte, len(keys)), make([]bool, len(keys))
	m.GetBatch(keys, values, ok)
	for i, k := range keys {
		if v, had := want[string(k)]; string(values[i]) != v || ok[i] != had {
			t.Errorf("batch, key %q: %q %v", k, values[i], ok[i])
		}
	}
}

// TestBytesWhole: no reader sees a value in part, or one of another key.
func TestBytesWhole(t *testing.T) {
	m := index.NewBytes()
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	for w := range uint64(2) {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(w, 1))
			for !stop.Load() {
				key := numbered(r.Uint64N(200))
				if r.IntN(3) == 0 {
					m.Delete(key)
				} else {
					_, _, _ = m.Put(key, bytes.Repeat(key, 1+r.IntN(20))) // keys are not too long
				}
			}
		})
	}
	for c := range uint64(2) {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(c, 2))
			for range rounds(100_000) {
				key := numbered(r.Uint64N(200))
				if v, ok := m.Get(key); ok && len(bytes.ReplaceAll(v, key, nil)) != 0 || ok && len(v) == 0 {
					t.Errorf("key %q has %q", key, v)
					return
				}
			}
		})
	}
	readers.Wait()
	stop.Store(true)
	writers.Wait()
	if _, err := m.Check(); err != nil {
		t.Error(err)
	}
}

// TestBytesGivesBack: the value of a deleted key is not kept.
func TestBytesGivesBack(t *testing.T) {
	m := index.NewBytes()
	key := []byte("key")
	_, _, _ = m.Put(key, make([]byte, 1000))
	v, _ := m.Get(key)
	gone := weak.Make(&v[0])
	m.Delete(key)
	v = nil
	for range 10 {
		runtime.GC()
		if gone.Value() == nil {
			return
		}
	}
	t.Error("the map keeps a deleted value")
	runtime.KeepAlive(m)
}
