package sys

import "testing"

// TestPrefetch: the hint changes nothing, reads nothing, and may go beyond what is
// mapped.
func TestPrefetch(t *testing.T) {
	data := make([]byte, 1000)
	for i := range data {
		data[i] = byte(i)
	}
	for _, size := range []uintptr{0, 1, 64, 65, 1000, 1 << 20} {
		Prefetch(&data[0], size)
		Prefetch(&data[999], size)
	}
	Prefetch((*byte)(nil), 64)
	for i := range data {
		if data[i] != byte(i) {
			t.Fatalf("byte %d changed", i)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Prefetch(&data[0], 512) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPrefetch(b *testing.B) {
	data := make([]byte, 1024)
	for b.Loop() {
		Prefetch(&data[0], 512)
	}
}
