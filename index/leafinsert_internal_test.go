package index

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
)

// BenchmarkLeafInsert compares leaves that are written in place with leaves that are copied for
// each insert: random inserts into many leaves, a full one is halved. The collector's work counts:
// it runs whenever it likes, and once more at the end.
func BenchmarkLeafInsert(b *testing.B) {
	b.Run("in place", func(b *testing.B) {
		insertLeaves(b, func(at *atomic.Pointer[leaf[word]], l *leaf[word], i int, e *entry[word]) {
			l.put(i, e, 0)
		})
	})
	b.Run("copied", func(b *testing.B) {
		insertLeaves(b, func(at *atomic.Pointer[leaf[word]], l *leaf[word], i int, e *entry[word]) {
			var buf entryBuf[word]
			at.Store(newLeaf(l.low, l.high.Load(), slices.Insert(l.take(buf[:0]), i, *e)))
		})
	})
}

func insertLeaves(
	b *testing.B, insert func(*atomic.Pointer[leaf[word]], *leaf[word], int, *entry[word]),
) {
	leaves := make([]atomic.Pointer[leaf[word]], 25_000)
	for i := range leaves {
		leaves[i].Store(newLeaf[word](0, ^uint64(0), nil))
	}
	r := rand.New(rand.NewPCG(1, 2))
	var value word
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		at := &leaves[r.IntN(len(leaves))]
		l := at.Load()
		if l.load().size() == width {
			var buf entryBuf[word]
			list := l.take(buf[:0])
			at.Store(newLeaf(l.low, l.high.Load(), list[:width/2]))
			leaves[r.IntN(len(leaves))].Store(newLeaf(l.low, l.high.Load(), list[width/2:]))
			l = at.Load()
		}
		e := entry[word]{key: r.Uint64(), kind: 8, val: value}
		i := l.rank(l.load(), e.key, 8)
		insert(at, l, i, &e)
	}
	runtime.GC()
	runtime.KeepAlive(leaves)
}
