package index_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// steps is how many random operations TestOracle does.
var steps = flag.Int("index.steps", 0, "random operations of TestOracle; 0: some")

// op is one operation of a test.
type op struct {
	what  byte // one of whats
	key   string
	value uint64
	n     int
}

// Put, put if absent, delete, get, a batch of gets, scan, sum, ascend, descend, fill.
const whats = "pppppaadddddggggbsSuwf"

func (o op) String() string { return fmt.Sprintf("%c %q %d %d", o.what, o.key, o.value, o.n) }

// randomKey draws a key from a set in which keys meet: few bytes, common beginnings, dense numbers.
func randomKey(r *rand.Rand) string {
	const letters = "\x00\x01a\xff"
	short := func(n int) string {
		b := make([]byte, r.IntN(n+1))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	switch r.IntN(8) {
	case 0:
		return short(3)
	case 1:
		return strings.Repeat("\x00", r.IntN(20))
	case 2:
		return strings.Repeat("p", 8*r.IntN(4)) + short(2)
	case 3:
		number := binary.BigEndian.AppendUint64(nil, r.Uint64N(100))
		return strings.Repeat("q", 8) + string(number) + short(1)
	case 4:
		return strings.Repeat("\xff", index.MaxKey-r.IntN(10))
	default:
		return string(binary.BigEndian.AppendUint64(nil, r.Uint64N(300)))
	}
}

func randomOps(r *rand.Rand, n int) []op {
	ops := make([]op, n)
	keys := make([]string, 1+r.IntN(500))
	for i := range keys {
		keys[i] = randomKey(r)
	}
	for i := range ops {
		ops[i] = op{whats[r.IntN(len(whats))], keys[r.IntN(len(keys))], r.Uint64(), r.IntN(40)}
	}
	return ops
}

// oracle is a plain model of a Map.
type oracle map[string]uint64

// from returns the keys from one on, in order.
func (o oracle) from(key string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o)), func(k string) bool { return k < key })
}

// play runs operations and returns the first difference from the oracle.
func play(ops []op) error {
	m, want := index.NewMap(), oracle{}
	for i, o := range ops {
		if err := o.run(m, want); err != nil {
			return fmt.Errorf("operation %d, %v: %w", i, o, err)
		}
		if invariants.Enabled || i == len(ops)-1 {
			if _, err := m.Check(); err != nil {
				return fmt.Errorf("operation %d, %v: %w", i, o, err)
			}
		}
	}
	var keys []string
	for k := range m.Ascend(nil) {
		keys = append(keys, string(k))
	}
	if all := want.from(""); !slices.Equal(keys, all) {
		return fmt.Errorf("at the end keys %q, want %q", keys, all)
	}
	for k := range want { // give all memory back
		m.Delete([]byte(k))
	}
	if s, err := m.Check(); err != nil || s.Layers != 1 {
		return fmt.Errorf("emptied: %+v, %w", s, err)
	}
	return nil
}

func (o op) run(m *index.Map, want oracle) error {
	key := []byte(o.key)
	old, had := want[o.key]
	same := func(v uint64, ok bool, err error) error {
		if v != old || ok != had || err != nil {
			return fmt.Errorf("%d %v %v, want %d %v", v, ok, err, old, had)
		}
		return nil
	}
	switch o.what {
	case 'p':
		want[o.key] = o.value
		return same(m.Put(key, o.value))
	case 'a':
		if !had {
			want[o.key] = o.value
		}
		return same(m.PutIfAbsent(key, o.value))
	case 'd':
		delete(want, o.key)
		v, ok := m.Delete(key)
		return same(v, ok, nil)
	case 'g':
		v, ok := m.Get(key)
		return same(v, ok, nil)
	case 'b':
		return o.batch(m, want)
	default:
		return o.scan(m, want)
	}
}

// batch looks all keys of the oracle up, and some that differ from them.
func (o op) batch(m *index.Map, want oracle) error {
	var keys [][]byte
	for k := range want {
		keys = append(keys, []byte(k), []byte(k+"\x00"), []byte(k)[:len(k)/2])
	}
	values, ok := make([]uint64, len(keys)), make([]bool, len(keys))
	m.GetBatch(keys, values, ok)
	for i, k := range keys {
		if v, had := want[string(k)]; v != values[i] || had != ok[i] {
			return fmt.Errorf("key %q: %d %v, want %d %v", k, values[i], ok[i], v, had)
		}
	}
	return nil
}

func (o op) scan(m *index.Map, want oracle) error {
	key := []byte(o.key)
	up := want.from(o.key)
	down := slices.Sorted(maps.Keys(want))
	down = slices.DeleteFunc(down, func(k string) bool { return k > o.key })
	slices.Reverse(down)
	var got []string
	add := func(k []byte, v uint64) bool {
		got = append(got, string(k))
		if want[string(k)] != v {
			got = append(got, fmt.Sprintf("value %d", v))
		}
		return len(got) < o.n
	}
	expect := up[:min(o.n, len(up))]
	switch o.what {
	case 's':
		seen := m.Scan(key, o.n, func(k []byte, v uint64) bool { add(k, v); return true })
		if seen != len(expect) {
			return fmt.Errorf("%d seen, want %d", seen, len(expect))
		}
	case 'f':
		var p index.Page
		m.Fill(&p, nil, o.n/2) // what is there is to go
		m.Fill(&p, key, o.n)
		for i, v := range p.Values() {
			add(p.Key(i), v)
		}
		if p.Len() != len(expect) {
			return fmt.Errorf("%d filled, want %d", p.Len(), len(expect))
		}
	case 'S':
		var sum uint64
		if len(up) > 0 && up[0] == o.key {
			up = up[1:]
		}
		up = up[:min(o.n, len(up))]
		for _, k := range up {
			sum += want[k]
		}
		if s, n := m.SumAfter(key, o.n); s != sum || n != len(up) {
			return fmt.Errorf("%d of %d, want %d of %d", s, n, sum, len(up))
		}
		return nil
	case 'u', 'w':
		seq := m.Ascend(key)
		if o.what == 'w' {
			seq, expect = m.Descend(key), down[:min(o.n, len(down))]
		}
		seq(add)
		if o.n == 0 && len(got) > 0 {
			got = got[:0]
		}
	}
	if !slices.Equal(got, expect) {
		return fmt.Errorf("keys %q, want %q", got, expect)
	}
	return nil
}

// shrink leaves out what a failure does not need.
func shrink(ops []op) []op {
	for n := len(ops) / 2; n > 0; {
		smaller := false
		for at := 0; at+n <= len(ops); {
			if less := slices.Delete(slices.Clone(ops), at, at+n); play(less) != nil {
				ops, smaller = less, true
			} else {
				at += n
			}
		}
		if !smaller || n > len(ops)/2 {
			n /= 2
		}
	}
	return ops
}

// TestOracle compares random operations with a Go map and its sorted keys. A failing run is shrunk.
func TestOracle(t *testing.T) {
	n := *steps
	if n == 0 {
		if n = 200_000; invariants.Enabled || testing.Short() {
			n = 20_000
		}
	}
	const each = 1000
	for seed := range uint64(max(n/each, 1)) {
		ops := randomOps(rand.New(rand.NewPCG(seed, 1)), each)
		if err := play(ops); err != nil {
			small := shrink(ops)
			t.Fatalf("seed %d: %v\nshrunk to %v\n%v", seed, err, small, play(small))
		}
	}
}

// TestManyKeys fills a tree of several levels in three orders and empties it again.
func TestManyKeys(t *testing.T) {
	const n = 50_000
	order := map[string]func(i uint64) uint64{
		"ascending":  func(i uint64) uint64 { return i },
		"descending": func(i uint64) uint64 { return n - i },
		"random":     func(i uint64) uint64 { return i * 0x9E3779B97F4A7C15 },
	}
	for name, f := range order {
		m := index.NewMap()
		var sum, last uint64
		for i := range uint64(n) {
			_, _, err := m.Put(binary.BigEndian.AppendUint64(nil, f(i)), i)
			if sum += i; err != nil {
				t.Fatal(err)
			}
		}
		s, err := m.Check()
		if err != nil || s.Keys != n {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		if s.PerKey() > 50 || name == "ascending" && s.PerKey() > 26 {
			t.Errorf("%s: %.1f bytes per key", name, s.PerKey())
		}
		if got, count := m.SumAfter(nil, n+1); got != sum || count != n {
			t.Errorf("%s: sum %d of %d, want %d", name, got, count, sum)
		}
		var before []byte
		for k, v := range m.Ascend(nil) {
			if last++; bytes.Compare(before, k) > 0 || f(v) != binary.BigEndian.Uint64(k) {
				t.Fatalf("%s: %x after %x", name, k, before)
			}
			before = append(before[:0], k...)
		}
		for i := range uint64(n) {
			if v, ok := m.Delete(binary.BigEndian.AppendUint64(nil, f(i))); !ok || v != i {
				t.Fatalf("%s: deleted %d %v, want %d", name, v, ok, i)
			}
		}
		if s, err = m.Check(); err != nil || s.Leaves > 2 || s.Inners > 2 || last != n {
			t.Errorf("%s: emptied %+v, %v; %d keys seen", name, s, err, last)
		}
	}
}

func TestLongKey(t *testing.T) {
	m := index.NewMap()
	long := make([]byte, index.MaxKey+1)
	if _, _, err := m.Put(long, 1); err != index.ErrKeyTooLong {
		t.Errorf("put: %v", err)
	}
	if _, _, err := m.PutIfAbsent(long, 1); err != index.ErrKeyTooLong {
		t.Errorf("put if absent: %v", err)
	}
	if _, ok := m.Delete(long); ok {
		t.Error("deleted")
	}
	if _, ok := m.Get(long); ok || m.Len() != 0 {
		t.Error("there")
	}
	m.Put(long[1:], 7)
	if v, ok := m.Get(long[1:]); v != 7 || !ok {
		t.Error("not there")
	}
	if sum, n := m.SumAfter(long, 10); sum != 0 || n != 0 {
		t.Error("something comes after")
	}
}
