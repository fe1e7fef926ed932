package index_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// rounds is how much a concurrent test does.
func rounds(n int) int {
	if invariants.Enabled || testing.Short() {
		return n / 10
	}
	return n
}

// numbered returns key i, in one of four shapes: one layer, and one to three layers more.
func numbered(i uint64) []byte {
	key := make([]byte, 0, 32)
	for range i % 4 {
		key = append(key, "a layer "...)
	}
	return binary.BigEndian.AppendUint64(key, i/4)
}

// churn stores and removes keys until stop is set, so that leaves split, join and layers come and
// go. Keys whose number is a multiple of keep stay.
func churn(m *index.Map, seed, keys, keep uint64, stop *atomic.Bool) {
	r := rand.New(rand.NewPCG(seed, 7))
	for !stop.Load() {
		from, n := r.Uint64N(keys), r.Uint64N(400)
		for i := from; i < min(from+n, keys); i++ {
			if i%keep == 0 {
				continue
			}
			if seed++; seed/1000%2 == 0 {
				m.Delete(numbered(i))
			} else {
				_, _, _ = m.Put(numbered(i), i) // keys are not too long
			}
		}
	}
}

// TestScansAmidChurn: keys that stay are seen exactly once, in order, by every kind of reader,
// while four writers change all keys around them.
func TestScansAmidChurn(t *testing.T) {
	const keys, keep = 4000, 7
	m := index.NewMap()
	for i := uint64(0); i < keys; i += keep {
		_, _, _ = m.Put(numbered(i), i)
	}
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	for w := range uint64(4) {
		writers.Go(func() { churn(m, w, keys, keep, &stop) })
	}
	for kind := range 6 {
		readers.Go(func() {
			for range rounds(200) {
				if why := look(m, kind, keys, keep); why != "" {
					t.Errorf("reader %d: %s", kind, why)
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

// look reads the keys that stay in one of six ways, and says what was wrong.
func look(m *index.Map, kind int, keys, keep uint64) string {
	seen := make(map[string]bool)
	var before []byte
	order := func(sign int) func(key []byte, v uint64) bool {
		return func(key []byte, v uint64) bool {
			if before != nil && bytes.Compare(before, key)*sign <= 0 || !bytes.Equal(key, numbered(v)) {
				seen = nil
				return false
			}
			before = append(before[:0], key...)
			seen[string(key)] = true
			return true
		}
	}
	switch kind {
	case 0:
		m.Ascend(nil)(order(-1))
	case 1:
		m.Descend(nil)(order(1))
	case 4:
		m.Scan(nil, 2*int(keys), order(-1))
	case 5:
		var p index.Page
		m.Fill(&p, nil, 2*int(keys))
		next := order(-1)
		for i, v := range p.Values() {
			if !next(p.Key(i), v) {
				break
			}
		}
	case 2:
		for i := uint64(0); i < keys; i += keep {
			if v, ok := m.Get(numbered(i)); v != i || !ok {
				return "a key is not there"
			}
		}
		return ""
	default:
		var list [][]byte
		for i := uint64(0); i < keys; i += keep {
			list = append(list, numbered(i))
		}
		values, ok := make([]uint64, len(list)), make([]bool, len(list))
		m.GetBatch(list, values, ok)
		for i, there := range ok {
			if !there || values[i] != uint64(i)*keep {
				return "a key is not there"
			}
		}
		if _, n := m.SumAfter(nil, int(keys)); n < len(list)-1 || n > int(keys) {
			return "a sum of too few or too many keys"
		}
		return ""
	}
	if seen == nil {
		return "a key out of order, or twice, or with the value of another"
	}
	for i := uint64(0); i < keys; i += keep {
		if !seen[string(numbered(i))] {
			return "a key that stays was not seen"
		}
	}
	return ""
}

// input and output are those of one operation in a history of one key.
type input struct {
	what  byte
	key   int
	value uint64
}

type output struct {
	value uint64
	found bool
}

// register is the sequential model of one key.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := map[int][]porcupine.Operation{}
		for _, o := range history {
			k := o.Input.(input).key
			byKey[k] = append(byKey[k], o)
		}
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return output{} },
	Step: func(state, in, out any) (bool, any) {
		was, i := state.(output), in.(input)
		next := was
		switch {
		case i.what == 'p', i.what == 'a' && !was.found:
			next = output{i.value, true}
		case i.what == 'd':
			next = output{}
		}
		return was == out.(output), next
	},
}

// TestLinearizable: histories of single keys among writers that split and join their leaves.
func TestLinearizable(t *testing.T) {
	const hot, clients = 8, 6
	for round := range uint64(max(rounds(20), 3)) {
		m := index.NewMap()
		var stop atomic.Bool
		var writers, all sync.WaitGroup
		// Hot keys lie among those that come and go, of each shape.
		writers.Go(func() { churn(m, round, 400, 1<<60, &stop) })
		hotKey := func(k int) []byte { return append(numbered(uint64(50*k+k)), 'h') }
		var clock atomic.Int64
		histories := make([][]porcupine.Operation, clients)
		for c := range clients {
			all.Go(func() {
				r := rand.New(rand.NewPCG(round, uint64(c)))
				for i := range rounds(2000) {
					in := input{"ppaddggggb"[r.IntN(10)], r.IntN(hot), uint64(i*clients + c + 1)}
					call := clock.Add(1)
					out := do(m, in, hotKey)
					histories[c] = append(histories[c], porcupine.Operation{ClientId: c, Input: in,
						Output: out, Call: call, Return: clock.Add(1)})
				}
			})
		}
		all.Wait()
		stop.Store(true)
		writers.Wait()
		var history []porcupine.Operation
		for _, h := range histories {
			history = append(history, h...)
		}
		if !porcupine.CheckOperations(register, history) {
			t.Fatalf("round %d: a history of %d operations is not linearizable", round, len(history))
		}
		if _, err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

func do(m *index.Map, in input, key func(int) []byte) output {
	k := key(in.key)
	switch in.what {
	case 'p':
		old, found, _ := m.Put(k, in.value)
		return output{old, found}
	case 'a':
		old, found, _ := m.PutIfAbsent(k, in.value)
		return output{old, found}
	case 'd':
		old, found := m.Delete(k)
		return output{old, found}
	case 'b':
		var values [3]uint64
		var ok [3]bool
		m.GetBatch([][]byte{key(in.key + 1), k, key(in.key + 2)}, values[:], ok[:])
		return output{values[1], ok[1]}
	}
	v, found := m.Get(k)
	return output{v, found}
}

// TestNoAllocation: readers allocate nothing, whatever keys there are.
func TestNoAllocation(t *testing.T) {
	m := index.NewMap()
	var keys [][]byte
	for i := range uint64(1000) {
		keys = append(keys, numbered(i))
		_, _, _ = m.Put(keys[i], i)
	}
	values, ok := make([]uint64, len(keys)), make([]bool, len(keys))
	n := testing.AllocsPerRun(10, func() {
		m.GetBatch(keys, values, ok)
		for _, k := range keys {
			m.Get(k)
			m.SumAfter(k, 10)
		}
	})
	if n != 0 && !invariants.Enabled {
		t.Errorf("%v allocations", n)
	}
	replace := testing.AllocsPerRun(10, func() {
		for i, k := range keys {
			_, _, _ = m.Put(k, uint64(i))
		}
	})
	if replace != 0 && !invariants.Enabled {
		t.Errorf("%v allocations to replace values", replace)
	}
}

// FuzzKeys: operations on keys that the fuzzer makes up.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("p\x01ap\x02a\x00p\x00d\x01ag\x02a\x00"))
	f.Add([]byte("p\x0aaaaaaaaabbp\x0aaaaaaaaabcd\x0aaaaaaaaabbs\x08aaaaaaaa"))
	f.Add(append([]byte("p\xff"), make([]byte, 300)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var ops []op
		for len(b) > 2 && len(ops) < 500 {
			n := min(int(b[1]), len(b)-2)
			what := whats[int(b[0])%len(whats)]
			if bytes.IndexByte([]byte(whats), b[0]) >= 0 {
				what = b[0]
			}
			ops = append(ops, op{what, string(b[2 : 2+n]), uint64(len(ops)), n % 40})
			b = b[2+n:]
		}
		if err := play(ops); err != nil {
			t.Fatal(err)
		}
	})
}
