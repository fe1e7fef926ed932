package cuckoo_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/cuckoo"
)

// TestTable compares random operations with a Go map, one by one and in batches.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 7, 100, 5000} {
		table, want := cuckoo.New(size), map[uint64]uint64{}
		for i := range uint64(20 * size) {
			k := 1 + r.Uint64N(uint64(2*size))
			_, had := want[k]
			if r.IntN(3) == 0 {
				if table.Delete(k) != had {
					t.Fatalf("delete of %d, which was there: %v", k, had)
				}
				delete(want, k)
			} else if had || len(want) < size {
				if err := table.Put(k, i); err != nil {
					t.Fatalf("size %d, %d keys: %v", size, len(want), err)
				}
				want[k] = i
			}
		}
		same(t, table, want, uint64(2*size))
	}
}

// same looks all keys from 0 to last up.
func same(t *testing.T, table *cuckoo.Table, want map[uint64]uint64, last uint64) {
	t.Helper()
	var keys []uint64
	for k := range last + 1 {
		keys = append(keys, k)
		v, ok := table.Get(k)
		if w, had := want[k]; v != w || ok != had {
			t.Fatalf("key %d: %d %v, want %d %v", k, v, ok, w, had)
		}
	}
	values, ok := make([]uint64, len(keys)), make([]bool, len(keys))
	table.GetBatch(nil, nil, nil)
	table.GetBatch(keys, values, ok)
	for i, k := range keys {
		if w, had := want[k]; values[i] != w || ok[i] != had {
			t.Fatalf("batch, key %d: %d %v, want %d %v", k, values[i], ok[i], w, had)
		}
	}
	if table.Len() != len(want) {
		t.Errorf("%d keys, want %d", table.Len(), len(want))
	}
}

// TestFull: a table that is full says so, and has all that it had.
func TestFull(t *testing.T) {
	table, want := cuckoo.New(1), map[uint64]uint64{}
	if err := table.Put(0, 1); !errors.Is(err, cuckoo.ErrKey) {
		t.Errorf("key 0: %v", err)
	}
	full := false
	for k := uint64(1); k < 1000 && !full; k++ {
		switch err := table.Put(k, k*k); {
		case err == nil:
			want[k] = k * k
		case errors.Is(err, cuckoo.ErrFull):
			full = true
		default:
			t.Fatal(err)
		}
	}
	if !full {
		t.Error("a table for one key took a thousand")
	}
	same(t, table, want, 1000)
}

// TestLoad: random keys fill nine tenths of a table.
func TestLoad(t *testing.T) {
	const places = 1 << 14
	table, r := cuckoo.New(places*9/10), rand.New(rand.NewPCG(3, 4))
	for i := range places * 9 / 10 {
		if err := table.Put(r.Uint64()|1, 1); err != nil {
			t.Fatalf("after %d of %d places: %v", i, places, err)
		}
	}
}

func TestSwitch(t *testing.T) {
	s, r := cuckoo.NewSwitch(1000), rand.New(rand.NewPCG(5, 6))
	var list []cuckoo.MAC
	for i := range 1000 {
		a := cuckoo.MAC{byte(i), byte(i >> 8), byte(r.IntN(256)), byte(r.IntN(256)), 1, 0}
		if i == 0 {
			a = cuckoo.MAC{}
		}
		if err := s.Learn(a, uint16(i)); err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	for i := range 10 {
		if !s.Forget(list[i]) || s.Forget(list[i]) {
			t.Errorf("address %d was not there once", i)
		}
	}
	ports, ok := make([]uint16, len(list)), make([]bool, len(list))
	s.PortBatch(list, ports, ok)
	for i, a := range list {
		p, there := s.Port(a)
		if there != (i >= 10) || there && p != uint16(i) || p != ports[i] || there != ok[i] {
			t.Fatalf("address %d: port %d %v, in the batch %d %v", i, p, there, ports[i], ok[i])
		}
	}
}
