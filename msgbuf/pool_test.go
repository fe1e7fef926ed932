package msgbuf

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/wire"
)

func TestConfig(t *testing.T) {
	register := func([]byte) (uint32, error) { return 0, nil }
	unregister := func([]byte, uint32) {}
	for field, cfg := range map[string]Config{
		"MaxMessage": {MaxMessage: -1},
		"Limit":      {Limit: -1},
		"Unregister": {Register: register},
		"Register":   {Unregister: unregister},
	} {
		var bad *ConfigError
		if _, err := NewPool(cfg); !errors.As(err, &bad) || bad.Field != field || bad.Error() == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	var bad *ConfigError
	if _, err := NewPool(Config{MaxMessage: wire.MaxMsgSize + 1}); !errors.As(err, &bad) ||
		bad.Field != "MaxMessage" {
		t.Errorf("MaxMessage too large: %v", err)
	}
}

// registry checks the calls of Register and Unregister.
type registry struct {
	t       *testing.T
	live    map[uint32][]byte
	next    uint32
	failing error
	refused []byte // what was offered while failing
}

func (r *registry) register(mem []byte) (uint32, error) {
	if r.failing != nil {
		r.refused = mem
		return 0, r.failing
	}
	start := uintptr(unsafe.Pointer(&mem[0]))
	for key, other := range r.live {
		o := uintptr(unsafe.Pointer(&other[0]))
		if start < o+uintptr(len(other)) && o < start+uintptr(len(mem)) {
			r.t.Errorf("region registered twice, first with key %d", key)
		}
	}
	r.next++
	r.live[r.next] = mem
	return r.next, nil
}

func (r *registry) unregister(mem []byte, key uint32) {
	if live := r.live[key]; live == nil || &live[0] != &mem[0] || len(live) != len(mem) {
		r.t.Errorf("key %d does not belong to these %d bytes", key, len(mem))
	}
	mem[0] = 1 // still mapped
	delete(r.live, key)
}

func TestRegister(t *testing.T) {
	reg := &registry{t: t, live: map[uint32][]byte{}}
	p := newPool(t, Config{Register: reg.register, Unregister: reg.unregister})
	for range 2 {
		var bufs []*Buffer
		for i := range 3000 {
			bufs = append(bufs, alloc(t, p, i%3000*7))
		}
		bufs = append(bufs, alloc(t, p, 1<<20), alloc(t, p, 8<<20))
		for _, b := range bufs {
			region := reg.live[b.Key()]
			if region == nil {
				t.Fatalf("key %d is not registered", b.Key())
			}
			off := uintptr(unsafe.Pointer(&b.mem[0])) - uintptr(unsafe.Pointer(&region[0]))
			if off+uintptr(len(b.mem)) > uintptr(len(region)) {
				t.Fatalf("key %d is not that of the buffer", b.Key())
			}
		}
		if n := p.Stats().Regions; n != len(reg.live) {
			t.Errorf("%d regions, %d registered", n, len(reg.live))
		}
		for _, b := range bufs {
			b.Free()
		}
		p.Trim()
		if len(reg.live) != 0 {
			t.Errorf("%d regions still registered after Trim", len(reg.live))
		}
	}
	closePool(t, p)
}

func TestRegisterFails(t *testing.T) {
	reg := &registry{t: t, live: map[uint32][]byte{}, failing: errors.New("no more keys")}
	p := newPool(t, Config{Register: reg.register, Unregister: reg.unregister})
	for _, n := range []int{10, 8 << 20} {
		if _, err := p.Alloc(n); !errors.Is(err, reg.failing) {
			t.Errorf("Alloc(%d): %v", n, err)
		}
		if runtime.GOOS == "linux" && hugemem.Free(reg.refused) == nil {
			t.Errorf("Alloc(%d) left its memory mapped", n)
		}
	}
	if st := p.Stats(); st.ReservedBytes != 0 || st.Regions != 0 || len(st.Classes) != 0 {
		t.Errorf("left over: %+v", st)
	}
	reg.failing = nil
	alloc(t, p, 10).Free()
	closePool(t, p)
}

func TestLimit(t *testing.T) {
	const limit = 1 << 20
	p := newPool(t, Config{Limit: limit})
	for _, n := range []int{32, 1000, 40_000, 300_000, 32} { // each in memory that the last one used
		var bufs []*Buffer
		bytes := 0
		for {
			b, err := p.Alloc(n)
			if err != nil {
				if err != ErrNoMemory {
					t.Fatal(err)
				}
				break
			}
			bytes += n
			bufs = append(bufs, b)
		}
		if r := p.Stats().ReservedBytes; r > limit {
			t.Errorf("%d bytes reserved", r)
		}
		// A small buffer in the rest of a region can keep it for its old class.
		if bytes < limit/4 {
			t.Errorf("only %d bytes in messages of %d", bytes, n)
		}
		for _, b := range bufs {
			b.Free()
		}
	}
	if _, err := p.Alloc(8 << 20); err != ErrNoMemory {
		t.Errorf("more than the limit at once: %v", err)
	}
	closePool(t, p)

	tiny := newPool(t, Config{Limit: 4096})
	alloc(t, tiny, 32).Free()
	if r := tiny.Stats().ReservedBytes; r != 4096 {
		t.Errorf("%d bytes reserved", r)
	}
	closePool(t, tiny)
}

func TestTrim(t *testing.T) {
	p := newPool(t, Config{})
	p.Trim() // of nothing
	var bufs []*Buffer
	for range 4000 {
		bufs = append(bufs, alloc(t, p, 1000))
	}
	full := p.Stats()
	for _, b := range bufs[1:] {
		b.Free()
	}
	if st := p.Stats(); st.ReservedBytes != full.ReservedBytes || st.InUse != 1 {
		t.Errorf("before Trim: %+v", st)
	}
	copy(bufs[0].Data(), "still here")
	p.Trim()
	st := p.Stats()
	if st.Regions != 1 || st.ReservedBytes >= full.ReservedBytes {
		t.Errorf("after Trim: %+v", st)
	}
	if string(bufs[0].Data()[:10]) != "still here" {
		t.Error("Trim touched a buffer in use")
	}
	for i := range bufs[1:] { // what is left of the free list must be mapped
		bufs[i+1] = alloc(t, p, 1000)
		clear(bufs[i+1].Data())
	}
	for _, b := range bufs {
		b.Free()
	}
	p.Trim()
	if st := p.Stats(); st.Regions != 0 || st.ReservedBytes != 0 || len(st.Classes) != 0 {
		t.Errorf("empty pool after Trim: %+v", st)
	}
	closePool(t, p)
}

// TestCloseWithLeaks closes a pool with buffers in use, which must stay usable.
func TestCloseWithLeaks(t *testing.T) {
	reg := &registry{t: t, live: map[uint32][]byte{}}
	p := newPool(t, Config{Register: reg.register, Unregister: reg.unregister})
	small, large, other := alloc(t, p, 100), alloc(t, p, 2<<20), alloc(t, p, 5000)
	other.Free()
	var leak *LeakError
	if err := p.Close(); !errors.Is(err, ErrLeak) || !errors.As(err, &leak) || leak.Count != 2 {
		t.Fatalf("Close: %v", err)
	}
	if _, err := p.Alloc(100); err != ErrClosed {
		t.Errorf("Alloc after Close: %v", err)
	}
	if _, err := p.Alloc(-1); err != ErrClosed {
		t.Errorf("Alloc after Close: %v", err)
	}
	for _, b := range []*Buffer{small, large} {
		clear(b.Data())
		if err := b.Lend(); err != nil {
			t.Error(err)
		}
		b.Return()
	}
	if st := p.Stats(); st.InUse != 2 || st.Regions != 2 {
		t.Errorf("%+v", st)
	}
	large.Free()
	if st := p.Stats(); st.Regions != 1 {
		t.Errorf("%d regions, want 1", st.Regions)
	}
	if err := p.Close(); !errors.As(err, &leak) || leak.Count != 1 {
		t.Errorf("second Close: %v", err)
	}
	small.Free()
	if len(reg.live) != 0 {
		t.Errorf("%d regions registered", len(reg.live))
	}
	mistake(t, "double Free after Close", small.Free)
	closePool(t, p)
	p.Trim()
}

// TestLargeReturns checks that the memory of large messages goes back by itself.
func TestLargeReturns(t *testing.T) {
	const n = 8 << 20
	p := newPool(t, Config{MaxMessage: n})
	var bufs []*Buffer
	for range 10 {
		bufs = append(bufs, alloc(t, p, n))
	}
	if r := p.Stats().ReservedBytes; r < 10*n {
		t.Fatalf("%d bytes reserved", r)
	}
	for _, b := range bufs {
		b.Free()
	}
	st := p.Stats()
	if st.Regions != 2 || st.ReservedBytes > 2*(n+n/32) {
		t.Errorf("%d regions and %d bytes kept", st.Regions, st.ReservedBytes)
	}
	// The ones kept are used again, and the oldest go first.
	for range 40 {
		alloc(t, p, n).Free()
	}
	for range 40 {
		bufs = append(bufs[:0], alloc(t, p, 1<<20), alloc(t, p, 3<<20), alloc(t, p, 1<<20))
		for _, b := range bufs {
			b.Free()
		}
	}
	if st := p.Stats(); st.Regions > 4 || st.ReservedBytes > 2*(n+n/32) {
		t.Errorf("%+v", st)
	}
	closePool(t, p)
}

// TestLargeKept counts regions to see that a cycle of large buffers maps nothing new.
func TestLargeKept(t *testing.T) {
	reg := &registry{t: t, live: map[uint32][]byte{}}
	p := newPool(t, Config{MaxMessage: 16 << 20, Register: reg.register, Unregister: reg.unregister})
	var bufs []*Buffer
	for range 40 {
		bufs = append(bufs, alloc(t, p, 1<<20))
	}
	for _, b := range bufs {
		b.Free()
	}
	if n := p.Stats().Regions; n != keepLarge {
		t.Errorf("%d regions kept, want %d", n, keepLarge)
	}
	for range 3 { // pushes out some of the old ones
		a, b := alloc(t, p, 8<<20), alloc(t, p, 16<<20)
		a.Free()
		b.Free()
	}
	before := reg.next
	for range 20 {
		a, b := alloc(t, p, 8<<20), alloc(t, p, 16<<20)
		a.Free()
		b.Free()
	}
	if reg.next != before {
		t.Errorf("%d new regions in a steady cycle", reg.next-before)
	}
	closePool(t, p)
}

// TestHugepages must work whether or not hugepages are free.
func TestHugepages(t *testing.T) {
	p := newPool(t, Config{Hugepages: true})
	var bufs []*Buffer
	for _, n := range []int{10, 1000, 100_000, 1 << 20, 2 << 20, 8 << 20} {
		b := alloc(t, p, n)
		clear(b.Data())
		checkPackets(t, b, 1000)
		bufs = append(bufs, b)
	}
	if st := p.Stats(); st.HugeBytes < 0 || st.HugeBytes > st.ReservedBytes ||
		st.HugeBytes%bigRegion != 0 {
		t.Errorf("%d of %d bytes in hugepages", st.HugeBytes, st.ReservedBytes)
	}
	for _, b := range bufs {
		b.Free()
	}
	closePool(t, p)
}

func TestStats(t *testing.T) {
	p := newPool(t, Config{})
	if st := p.Stats(); st.InUse != 0 || st.Classes != nil || st.ReservedBytes != 0 {
		t.Errorf("new pool: %+v", st)
	}
	a, b := alloc(t, p, 40), alloc(t, p, 41)
	st := p.Stats()
	if st.InUse != 2 || st.UsedBytes != 64+128 || st.ReservedBytes != smallRegion || st.Regions != 1 ||
		len(st.Classes) != 2 {
		t.Fatalf("%+v", st)
	}
	if st.Classes[0] != (ClassStats{40, 64, 1, 1023}) ||
		st.Classes[1] != (ClassStats{104, 128, 1, 511}) {
		t.Errorf("classes %+v", st.Classes)
	}
	a.Free()
	b.Free()
	closePool(t, p)
}

func TestNoAllocation(t *testing.T) {
	skipIfRenewed(t)
	for _, shared := range []bool{false, true} {
		p := newPool(t, Config{Shared: shared})
		for _, n := range []int{0, 32, 1000, 5000, 100_000, 1 << 20, 8 << 20} {
			allocs := testing.AllocsPerRun(100, func() {
				b, err := p.Alloc(n)
				if err != nil {
					t.Fatal(err)
				}
				_ = b.Resize(n / 2)
				_ = b.Lend()
				for i := range b.Packets(1400) {
					b.Packet(i, 1400)
				}
				b.Return()
				b.Free()
				b.Free() // a mistake allocates nothing either
			})
			if allocs != 0 {
				t.Errorf("shared %v, size %d: %v allocations", shared, n, allocs)
			}
		}
		closePool(t, p)
	}
}
