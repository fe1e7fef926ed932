package msgbuf

import (
	"runtime"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/wire"
)

// needing returns a message size whose chunk needs exactly that many bytes.
func needing(t *testing.T, bytes int) int {
	t.Helper()
	for n := bytes; n > 0; n-- {
		if chunkNeed(n) == bytes {
			return n
		}
	}
	t.Fatalf("no message needs %d bytes", bytes)
	return 0
}

// allocs returns count buffers of n bytes.
func allocs(t *testing.T, p *Pool, count, n int) []*Buffer {
	t.Helper()
	bufs := make([]*Buffer, count)
	for i := range bufs {
		bufs[i] = alloc(t, p, n)
	}
	return bufs
}

func freeAll(bufs []*Buffer) {
	for _, b := range bufs {
		b.Free()
	}
}

// TestRegionSizes: regions are small while the pool is small and the chunk not too
// large for them.
func TestRegionSizes(t *testing.T) {
	for _, c := range []struct{ chunk, region int }{
		{bigChunk - lineSize, smallRegion}, {bigChunk, smallRegion}, {bigChunk + lineSize, bigRegion},
	} {
		n := needing(t, c.chunk)
		p := newPool(t, Config{MaxMessage: n})
		b := alloc(t, p, n)
		if got := p.Stats().ReservedBytes; got != int64(c.region) {
			t.Errorf("a chunk of %d bytes: %d bytes reserved, want %d", c.chunk, got, c.region)
		}
		b.Free()
		closePool(t, p)
	}

	p := newPool(t, Config{})
	bufs := allocs(t, p, bigRegion/lineSize, 40)
	if got := p.Stats().ReservedBytes; got != bigRegion {
		t.Fatalf("%d bytes reserved, want %d in small regions, all used", got, bigRegion)
	}
	bufs = append(bufs, alloc(t, p, 40))
	if st := p.Stats(); st.ReservedBytes != 2*bigRegion || st.Regions != bigRegion/smallRegion+1 {
		t.Errorf("%d bytes in %d regions, want one big region more", st.ReservedBytes, st.Regions)
	}
	freeAll(bufs)
	closePool(t, p)
}

// TestRegionIsUsedUp: the last chunk of a region may end where the region ends.
func TestRegionIsUsedUp(t *testing.T) {
	n := needing(t, slabBytes)
	p := newPool(t, Config{MaxMessage: n})
	bufs := allocs(t, p, (smallRegion-slabBytes)/lineSize, 40)
	bufs = append(bufs, alloc(t, p, n))
	if st := p.Stats(); st.Regions != 1 {
		t.Errorf("%d regions, want 1", st.Regions)
	}
	freeAll(bufs)
	closePool(t, p)
}

// TestTrimKeepsCurrent: after Trim the region in use still gives its rest.
func TestTrimKeepsCurrent(t *testing.T) {
	p := newPool(t, Config{})
	first := allocs(t, p, smallRegion/lineSize, 40)
	last := alloc(t, p, 40)
	if st := p.Stats(); st.Regions != 2 {
		t.Fatalf("%d regions, want 2", st.Regions)
	}
	freeAll(first)
	p.Trim()
	other := alloc(t, p, 1000)
	if st := p.Stats(); st.Regions != 1 {
		t.Errorf("%d regions, want 1: there was room in it", st.Regions)
	}
	last.Free()
	other.Free()
	closePool(t, p)
}

// TestLimitIsReached: memory up to the limit is given without a Trim, and a Trim makes
// room for as much.
func TestLimitIsReached(t *testing.T) {
	const small, large = 1 << 20, 2 << 20
	p := newPool(t, Config{MaxMessage: large})
	small1 := alloc(t, p, small)
	smallBytes := p.Reserved()
	large1 := alloc(t, p, large)
	largeBytes := p.Reserved() - smallBytes
	small1.Free()
	large1.Free()
	closePool(t, p)

	for _, c := range []struct {
		limit   int64
		regions int
	}{
		{smallBytes + largeBytes, 2},
		{smallBytes + largeBytes - 1, 1},
		{largeBytes, 1},
	} {
		p := newPool(t, Config{MaxMessage: large, Limit: c.limit})
		alloc(t, p, small).Free() // and the pool keeps its memory
		b := alloc(t, p, large)
		if st := p.Stats(); st.Regions != c.regions {
			t.Errorf("limit %d: %d regions, want %d", c.limit, st.Regions, c.regions)
		}
		b.Free()
		closePool(t, p)
	}
	p = newPool(t, Config{MaxMessage: large, Limit: largeBytes - 1})
	if _, err := p.Alloc(large); err != ErrNoMemory {
		t.Errorf("one byte above the limit: %v", err)
	}
	closePool(t, p)
}

// TestLargeIsCounted: a large buffer reserves the bytes of its chunk, no page more, and
// counts as free once it is.
func TestLargeIsCounted(t *testing.T) {
	for _, n := range []int{1 << 20, 3 << 19, 2 << 20, 3 << 20, 4 << 20} {
		p := newPool(t, Config{})
		a := alloc(t, p, n)
		c := p.Stats().Classes[0]
		if c.ChunkSize%hugemem.PageSize != 0 || p.Reserved() != int64(c.ChunkSize) {
			t.Errorf("size %d: %d bytes reserved for a chunk of %d", n, p.Reserved(), c.ChunkSize)
		}
		b := alloc(t, p, n)
		counts := func(inUse, free int) {
			t.Helper()
			c.InUse, c.Free = inUse, free
			if got := p.Stats().Classes; !slices.Equal(got, []ClassStats{c}) {
				t.Errorf("size %d: classes %+v, want %+v", n, got, c)
			}
		}
		counts(2, 0)
		a.Free()
		counts(1, 1)
		b.Free()
		counts(0, 2)
		a = alloc(t, p, n)
		counts(1, 1)
		a.Free()
		closePool(t, p)
	}
}

// TestLargeUsedAgain: one large buffer in use at a time needs memory once.
func TestLargeUsedAgain(t *testing.T) {
	reg := &registry{t: t, live: map[uint32][]byte{}}
	p := newPool(t, Config{Register: reg.register, Unregister: reg.unregister})
	for range 5 {
		alloc(t, p, 1<<20).Free()
	}
	if reg.next != 1 {
		t.Errorf("%d regions for the same buffer", reg.next)
	}
	closePool(t, p)
}

// TestLargeFromItsSize: chunks of a mebibyte have a region of their own.
func TestLargeFromItsSize(t *testing.T) {
	for _, c := range []struct{ chunk, regions int }{{largeChunk - lineSize, 1}, {largeChunk, 2}} {
		n := needing(t, c.chunk)
		p := newPool(t, Config{MaxMessage: n})
		bufs := allocs(t, p, 2, n)
		if st := p.Stats(); st.Regions != c.regions {
			t.Errorf("two chunks of %d bytes: %d regions, want %d", c.chunk, st.Regions, c.regions)
		}
		freeAll(bufs)
		closePool(t, p)
	}
}

// TestHugeRounding: a large buffer is rounded up to hugepages if that costs no more than a
// quarter. The sizes are the same whether or not hugepages are free.
func TestHugeRounding(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		need, reserved int
	}{
		{2 * mib, 2 * mib},
		{8 * mib, 8 * mib},
		{8*mib + hugemem.PageSize, 10 * mib},
		{mib + hugemem.PageSize, mib + hugemem.PageSize},     // 2 MiB would be too much
		{4*mib + hugemem.PageSize, 4*mib + hugemem.PageSize}, // 6 MiB too
		{5 * mib, 6 * mib},
	} {
		n := needing(t, c.need)
		p := newPool(t, Config{MaxMessage: n, Hugepages: true})
		b := alloc(t, p, n)
		if got := p.Reserved(); got != int64(c.reserved) {
			t.Errorf("a chunk of %d bytes: %d bytes reserved, want %d", c.need, got, c.reserved)
		}
		b.Free()
		closePool(t, p)
	}
}

// TestLaterHeadersAreAligned: later headers start at a multiple of eight bytes, also
// behind data of an odd size.
func TestLaterHeadersAreAligned(t *testing.T) {
	for n := 1001; n < 1100; n++ {
		p := newPool(t, Config{MaxMessage: n})
		b := alloc(t, p, n)
		if b.MaxSize() != n {
			t.Fatalf("MaxSize %d, want %d", b.MaxSize(), n)
		}
		head, _ := b.Packet(1, MinDataPerPacket)
		if at(b, head)%8 != 0 || at(b, head) < wire.HeaderSize+n || at(b, head) >= wire.HeaderSize+n+8 {
			t.Errorf("%d bytes of data: the second header is at %d", n, at(b, head))
		}
		b.Free()
		closePool(t, p)
	}
}

// TestChunkNeed: one header, data up to a multiple of eight bytes, and one header more for
// each further 1000 bytes.
func TestChunkNeed(t *testing.T) {
	for n, want := range map[int]int{
		0: 24, 1: 32, 8: 32, 999: 1024, 1000: 1024, 1001: 1032 + 24, 1999: 2024 + 24, 2000: 2024 + 24,
		2001: 2032 + 48, 9999: 10024 + 9*24, 10000: 10024 + 9*24, 10001: 10032 + 10*24,
	} {
		if got := chunkNeed(n); got != want {
			t.Errorf("%d bytes of data need %d, want %d", n, got, want)
		}
	}
}

// TestGrow: a large buffer grows where it is, with what is in it, and counts as what it is then.
func TestGrow(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system cannot move mapped memory")
	}
	skipIfRenewed(t)
	p := newPool(t, Config{Limit: 16 << 20})
	b := alloc(t, p, 2<<20)
	for i := range b.Data() {
		b.Data()[i] = byte(i / 4096)
	}
	if !p.Grow(b, 8<<20) || b.MaxSize() < 8<<20 || b.Size() != 2<<20 {
		t.Fatalf("grown to %d, %d bytes of data", b.MaxSize(), b.Size())
	}
	for i, x := range b.Data() {
		if x != byte(i/4096) {
			t.Fatalf("byte %d is %d", i, x)
		}
	}
	if p.Reserved() != int64(b.Footprint()) || b.Footprint() != p.Footprint(8<<20) {
		t.Errorf("%d bytes reserved for a buffer of %d", p.Reserved(), b.Footprint())
	}
	if err := b.Resize(8 << 20); err != nil {
		t.Fatal(err)
	}
	head, data := b.Packet(b.Packets(1000)-1, 1000)
	clear(head)
	clear(data)
	for what, n := range map[string]int{"the limit": 32 << 20, "less": 1 << 20, "as much": 8 << 20} {
		if was := b.Footprint(); p.Grow(b, n) || b.Footprint() != was {
			t.Errorf("%s: has grown", what)
		}
	}
	b.Free()
	if again := alloc(t, p, 8<<20); p.Stats().Regions != 1 {
		t.Error("the buffer is not used again")
	} else {
		again.Free()
	}
	small := alloc(t, p, 1000)
	if p.Grow(small, 8<<20) {
		t.Error("a part of a region has grown")
	}
	small.Free()
	closePool(t, p)
}

// TestGrowRegistered: memory that a device knows stays where it is.
func TestGrowRegistered(t *testing.T) {
	reg := &registry{t: t, live: map[uint32][]byte{}}
	p := newPool(t, Config{Register: reg.register, Unregister: reg.unregister})
	b := alloc(t, p, 2<<20)
	if p.Grow(b, 4<<20) {
		t.Error("it was moved")
	}
	b.Free()
	closePool(t, p)
}
