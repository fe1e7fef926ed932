package kv

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestAhead: bytes of any kind are asked for, and the store answers as before.
func TestAhead(t *testing.T) {
	put := Command{Op: Put, Session: 1, Seq: 1, Key: key(t, "0123456789abcdef"),
		Value: value(t, "v")}
	whole := put.Append(nil)
	long := append([]byte{}, whole...)
	long[2] = MaxKey + 1
	none := append([]byte{}, whole...)
	none[2] = 0
	cut := whole[:cmdHeader+MaxKey-1]
	all := [][]byte{nil, whole[:cmdHeader-1], whole[:cmdHeader], cut, none, long,
		long[:cmdHeader+MaxKey+1], whole}
	s := NewStore()
	s.keys = fewKeys
	for range 2 { // without a table, and with one
		for _, b := range all {
			s.Ahead(b[:len(b):len(b)])
		}
		s.Apply(1, (&Command{Op: Open}).Append(nil))
		if a := s.Apply(2, whole); a.Status != OK {
			t.Fatalf("%+v", a)
		}
	}
	if v, found := s.Get(put.Key); !found || v != put.Value || s.Len() != fewKeys+1 {
		t.Errorf("%v, %v, %d keys", v, found, s.Len())
	}
	if n := testing.AllocsPerRun(100, func() { s.Ahead(whole) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRun applies runs of 16 writes of any of a million keys, asked for ahead or not.
func BenchmarkRun(b *testing.B) {
	const keys, run = 1_000_000, 16
	s := NewStore()
	s.Apply(1, (&Command{Op: Open}).Append(nil))
	v := value(b, "01234567890123456789012345678901234567890123456789")
	seq := uint64(0)
	write := func(i uint64) []byte {
		seq++
		c := Command{Op: Put, Session: 1, Seq: seq, Key: key(b, fmt.Sprintf("key-%012d", i)), Value: v}
		return c.Append(nil)
	}
	for i := range uint64(keys) {
		s.Apply(i+2, write(i))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, ahead := range []bool{false, true} {
		b.Run(fmt.Sprintf("ahead=%v", ahead), func(b *testing.B) {
			list := make([][]byte, b.N)
			for i := range list {
				list[i] = write(rng.Uint64N(keys))
			}
			b.ResetTimer()
			for i, d := range list {
				if ahead && i%run == 0 {
					for _, next := range list[i:min(i+run, len(list))] {
						s.Ahead(next)
					}
				}
				s.Apply(1, d)
			}
		})
	}
}
