package durable

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/index"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		m := index.NewMap()
		s, err := Open(dir, m, Config{Sync: Policy(round % 3), size: 4096, Report: func(err error) { t.Log(err) }})
		if err != nil {
			t.Fatal(err)
		}
		if m.Len() != round*500 {
			t.Fatal(m.Len(), round)
		}
		for i := range 500 {
			if _, _, err := s.Put(fmt.Appendf(nil, "k%d", i+round*500), uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		l, _ := folder(dir).list()
		t.Log(l)
	}
}

func BenchmarkPut(b *testing.B) {
	keys := make([][]byte, 1<<20)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%08x", uint32(i*2654435761))
	}
	b.Run("map", func(b *testing.B) {
		m := index.NewMap()
		for i := range b.N {
			m.Put(keys[i%len(keys)], 1)
		}
	})
	b.Run("log", func(b *testing.B) {
		m := index.NewMap()
		s, err := Open(b.TempDir(), m, Config{})
		if err != nil {
			b.Fatal(err)
		}
		for i := range b.N {
			s.Put(keys[i%len(keys)], 1)
		}
		b.StopTimer()
		s.Close()
	})
}
