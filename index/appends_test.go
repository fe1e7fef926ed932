package index_test

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/index"
)

// TestAppendsBesideReaders: two writers append keys while others walk over the end. A walk sees
// each key that was there when it began once, in order.
func TestAppendsBesideReaders(t *testing.T) {
	const n = 20_000
	m := index.NewMap()
	key := func(i uint64) []byte { return binary.BigEndian.AppendUint64(nil, i) }
	var done [2]atomic.Uint64 // of the writers: keys stored
	var writers, readers sync.WaitGroup
	for w := range uint64(2) {
		writers.Go(func() {
			for i := uint64(0); i < n; i++ {
				_, _, _ = m.Put(key(2*i+w), 1) // keys are not too long
				done[w].Store(i + 1)
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			var p index.Page
			for least := uint64(0); least < n; {
				least = min(done[0].Load(), done[1].Load())
				from := 2 * (least - min(least, 20))
				want := 2*least - from
				var before uint64
				seen := m.Scan(key(from), 1000, func(k []byte, _ uint64) bool {
					at := binary.BigEndian.Uint64(k)
					if at < from || before >= at && before > 0 {
						t.Errorf("a scan from %d: %d after %d", from, at, before)
					}
					before = at
					return true
				})
				m.Fill(&p, key(from), 1000)
				if uint64(p.Len()) < want || want > 0 && !bytes.Equal(p.Key(0), key(from)) {
					t.Errorf("from %d: a page of %d, want %d", from, p.Len(), want)
				}
				sum, count := m.SumAfter(key(from), 1000)
				if uint64(seen) < want || uint64(count)+1 < want || sum != uint64(count) {
					t.Errorf("from %d: %d keys, a sum of %d for %d; want %d", from, seen, sum, count, want)
				}
				if v, ok := m.Get(key(from)); least > 0 && (v != 1 || !ok) {
					t.Errorf("key %d is not there", from)
				}
			}
		})
	}
	writers.Wait()
	readers.Wait()
	if s, err := m.Check(); err != nil || s.Keys != 2*n {
		t.Errorf("%d keys, %v", s.Keys, err)
	}
}
