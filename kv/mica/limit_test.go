package mica

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

var limitFor = flag.Duration("mica.limit", 0, "how long TestMemoryLimit runs; 0: some operations")

// TestMemoryLimit: whatever the sizes of items, a partition has the memory that it was given, what
// it counts fits into it, and it leaves nothing on the Go heap.
func TestMemoryLimit(t *testing.T) {
	kinds := []Config{{Mode: Cache}, {Mode: Cache, MoveToHead: 0.5}, {Mode: Cache, Readers: true},
		{Mode: Store}, {Mode: Store, Readers: true}}
	for i, cfg := range kinds {
		t.Run(fmt.Sprintf("%v, move %v, readers %v", cfg.Mode, cfg.MoveToHead, cfg.Readers),
			func(t *testing.T) {
				cfg.Memory, cfg.NoHugepages = 3<<20+12_345, true
				p, err := New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				l := &limits{t: t, p: p, max: cfg.Memory, r: rand.New(rand.NewPCG(uint64(i), 3)),
					value: make([]byte, MaxValue+1)}
				before := heapBytes()
				begin := time.Now()
				each := *limitFor / time.Duration(len(kinds))
				for steps := 0; steps < 20_000 || time.Since(begin) < each; {
					for range 1000 {
						l.step()
						steps++
					}
				}
				checkAll(t, p, plain)
				if grown := int64(heapBytes()) - int64(before); grown > 512<<10 {
					t.Errorf("the heap has grown by %d bytes", grown)
				}
				runtime.KeepAlive(l) // its value is in both figures
				if st := p.Stats(); st.Puts < 1000 || st.Hits < 100 {
					t.Errorf("hardly anything was done: %+v", st)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			})
	}
}

// heapBytes returns what is live on the Go heap.
func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// limits is a partition that is used at random.
type limits struct {
	t     *testing.T
	p     *Partition
	max   int
	r     *rand.Rand
	value []byte
}

// step does something, and looks at the counters.
func (l *limits) step() {
	p := l.p
	n := l.r.IntN(200)
	key := fmt.Appendf(nil, "%0*d", 1+n%30, n)
	if l.r.IntN(50) == 0 {
		key = l.value[:l.r.IntN(MaxKey+2)] // too short and too long ones as well
	}
	h := plain(key)
	value := l.value[:l.r.IntN(1<<l.r.IntN(21)+1)]
	if l.r.IntN(1000) == 0 {
		value = l.value // too long
	}
	switch l.r.IntN(8) {
	case 0, 1:
		_ = p.Put(h, key, value) // it may be full, and keys may be bad
	case 2, 3:
		_, _ = p.Write(&Write{Hash: h, Key: key, Value: value, Flags: l.r.Uint32() & 1,
			Expires: p.Expiry(uint32(l.r.IntN(3)))})
	case 4:
		_, _ = p.Concat(h, key, value, l.r.IntN(2) == 0, 0)
	case 5:
		_ = p.Delete(h, key, 0)
	case 6:
		p.SetNow(p.now + uint32(l.r.IntN(50)/49))
	default:
		p.Get(h, key)
	}
	if st := &p.stats; st.Bytes > st.Capacity || st.Capacity+st.Index > uint64(l.max) ||
		len(p.mem) > l.max || st.Memory != uint64(len(p.mem)) {
		l.t.Fatalf("limit %d, memory %d: %+v", l.max, len(p.mem), st)
	}
}
