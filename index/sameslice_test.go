package index_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/userspace-rpc/erpc/index"
)

// TestSameSliceAtEnd: keys that come in order, of which the last ones differ in the zeros at their
// end only and so share a slice, stay together when a leaf is split behind them.
func TestSameSliceAtEnd(t *testing.T) {
	for before := range 150 {
		for zeros := range 9 {
			m := index.NewMap()
			var keys [][]byte
			for i := range before {
				keys = append(keys, binary.BigEndian.AppendUint64(nil, uint64(i)))
			}
			for n := range zeros + 1 {
				keys = append(keys, append([]byte("z"), bytes.Repeat([]byte{0}, n)...))
			}
			for i, key := range keys {
				_, _, _ = m.Put(key, uint64(i)) // keys are not too long
			}
			for i, key := range keys {
				if v, ok := m.Get(key); v != uint64(i) || !ok {
					t.Fatalf("%d keys and %d zeros: %q is %d, %v", before, zeros, key, v, ok)
				}
			}
			if s, err := m.Check(); err != nil || s.Keys != len(keys) {
				t.Fatalf("%d keys and %d zeros: %d keys, %v", before, zeros, s.Keys, err)
			}
		}
	}
}
