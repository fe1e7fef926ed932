package kv

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestShard: a table is a map, whatever is put and removed, and stays at three of four slots at
// most.
func TestShard(t *testing.T) {
	for _, bits := range []uint64{0, 2, 64} {
		rng := rand.New(rand.NewPCG(bits, 1))
		s, model := newSeed(), map[Key]Value{}
		hash := func(k *Key) uint64 { return s.hash(k) }
		var table shard
		for range 20_000 {
			k, v := key(t, fmt.Sprint(rng.IntN(300))), value(t, fmt.Sprint(rng.IntN(10)))
			it, found := table.find(&k, hash(&k))
			want, there := model[k]
			if found != there || found && it.val != want {
				t.Fatalf("%v is %v, want %v", k, found, there)
			}
			if rng.IntN(int(2+bits)) == 0 && found {
				table.remove(&s, it)
				delete(model, k)
				continue
			}
			table.put(&s, &k, hash(&k), it, found, &v)
			model[k] = v
			if table.used > len(table.slots)/4*3 {
				t.Fatalf("%d keys in %d slots", table.used, len(table.slots))
			}
		}
		got := map[Key]Value{}
		table.each(func(k *Key, v *Value) { got[*k] = *v })
		if !maps.Equal(got, model) || table.used != len(model) {
			t.Errorf("%d and %d keys, want %d", len(got), table.used, len(model))
		}
	}
}

// fill puts n further keys into a table.
func (t *shard) fill(tb testing.TB, s *seed, n int) {
	for from := t.used; t.used < from+n; {
		k, v := key(tb, fmt.Sprint(t.used)), value(tb, "v")
		h := s.hash(&k)
		it, found := t.find(&k, h)
		t.put(s, &k, h, it, found, &v)
	}
}

// TestShardSize: a table that grows by one key after the other is the smallest that has room, and
// so is one with room made for as many. Such a one is not replaced while they come, nor when room
// for no more is made again.
func TestShardSize(t *testing.T) {
	s := newSeed()
	want := leastSlots
	for n := 1; n < 200; n++ {
		if n > want/4*3 {
			want *= 2
		}
		var grown, made shard
		grown.fill(t, &s, n)
		made.reserve(&s, n)
		if len(grown.slots) != want || len(made.slots) != want {
			t.Fatalf("%d keys: %d and %d slots, want %d", n, len(grown.slots), len(made.slots), want)
		}
		at := &made.slots[0]
		made.fill(t, &s, n)
		if made.reserve(&s, n); &made.slots[0] != at || made.used != n {
			t.Fatalf("%d keys: the table is replaced", n)
		}
	}
}

// TestHomes: keys lie near the slots at which a search for them begins, also when they differ in a
// few bits. The hash of each key is in the place of its shard and of its slot.
func TestHomes(t *testing.T) {
	const n = 150_000
	s := NewStore()
	s.Apply(1, (&Command{Op: Open}).Append(nil))
	for i := range uint64(n) {
		c := Command{Op: Put, Session: 1, Seq: i + 1, Key: key(t, fmt.Sprintf("key-%012d", i))}
		s.Apply(2, c.Append(nil))
	}
	away := 0
	for i := range s.shards {
		table := &s.shards[i]
		for at := range table.slots {
			if k := &table.slots[at].key; k.n > 0 {
				away += (at - int(table.home(s.seed.hash(k)))) & (len(table.slots) - 1)
			}
		}
	}
	if away > 4*n { // 1.5 each, at three of four slots in use
		t.Errorf("%d keys are %d slots away from their homes together", n, away)
	}
}

// TestKeysDiffer: keys that differ only in zeros at their end are others, and have other hashes.
func TestKeysDiffer(t *testing.T) {
	s := NewStore()
	s.Apply(1, (&Command{Op: Open}).Append(nil))
	seen := map[uint64]bool{}
	for n := 1; n <= MaxKey; n++ {
		c := Command{Op: Put, Session: 1, Seq: uint64(n), Key: key(t, string(make([]byte, n))),
			Value: value(t, fmt.Sprint(n))}
		s.Apply(2, c.Append(nil))
		seen[s.seed.hash(&c.Key)] = true
	}
	for n := 1; n <= MaxKey; n++ {
		if v, found := s.Get(key(t, string(make([]byte, n)))); !found || v.String() != fmt.Sprint(n) {
			t.Errorf("%d zeros: %v", n, v)
		}
	}
	if len(seen) != MaxKey || s.Len() != MaxKey {
		t.Errorf("%d hashes of %d keys", len(seen), s.Len())
	}
	if other := NewStore(); other.seed == s.seed {
		t.Error("two stores have the same secret")
	}
}

// TestAnswers: each write has the answer that a map gives, whatever the session's last one was.
func TestAnswers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s, model := NewStore(), map[Key]Value{}
	s.Apply(1, (&Command{Op: Open}).Append(nil))
	for seq := uint64(1); seq < 5000; seq++ {
		c := Command{Op: Put + Op(rng.IntN(3)), Session: 1, Seq: seq,
			Key: key(t, fmt.Sprint(rng.IntN(5)))}
		if c.Op != Delete {
			c.Value = value(t, fmt.Sprint(rng.IntN(3)))
		}
		if c.Op == CAS {
			if c.Absent = rng.IntN(2) == 0; !c.Absent {
				c.Old = value(t, fmt.Sprint(rng.IntN(3)))
			}
		}
		was, found := model[c.Key]
		want := Answer{Status: OK}
		switch {
		case c.Op == CAS && found && (c.Absent || was != c.Old):
			want = Answer{Status: Mismatch, Found: true, Value: was}
		case c.Op == CAS && !found && !c.Absent, c.Op == Delete && !found:
			want.Status = NotFound
		case c.Op == Delete:
			delete(model, c.Key)
		default:
			model[c.Key] = c.Value
		}
		for range 2 { // the second one is a repetition
			if got := *s.Apply(2, c.Append(nil)); got != want {
				t.Fatalf("%v of %v, %v there: %+v, want %+v", c.Op, c.Key, found, got, want)
			}
		}
		if s.Len() != len(model) {
			t.Fatalf("%d keys, want %d", s.Len(), len(model))
		}
	}
}

func BenchmarkApply(b *testing.B) {
	s := NewStore()
	var list [][]byte
	for i := range uint64(64) {
		s.Apply(i+1, (&Command{Op: Open}).Append(nil))
	}
	for i := range uint64(2000) {
		c := Command{Op: Put, Session: i%64 + 1, Key: key(b, fmt.Sprintf("key-%012d", i)),
			Value: value(b, "01234567890123456789012345678901234567890123456789")}
		c.Seq = 1
		list = append(list, c.Append(nil))
	}
	b.ReportAllocs()
	for i := range uint64(b.N) {
		d := list[i*7919%2000]
		d[24], d[25], d[26], d[27], d[28] = byte(i+1), byte((i+1)>>8), byte((i+1)>>16), byte((i+1)>>24),
			byte((i+1)>>32)
		if a := s.Apply(1, d); a.Status != OK {
			b.Fatal(a)
		}
	}
}
