package msgbuf

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/userspace-rpc/erpc/wire"
)

// TestFigure2 compares one buffer with figure 2 of the paper, offset by offset.
func TestFigure2(t *testing.T) {
	p := newPool(t, Config{})
	b := alloc(t, p, 4050)
	if b.MaxSize() != 4104 || len(b.mem) != 4224 {
		t.Fatalf("MaxSize %d, chunk %d; want 4104, 4224", b.MaxSize(), len(b.mem))
	}
	if at(b, b.Data()) != 24 || len(b.Data()) != 4050 || cap(b.Data()) != 4050 {
		t.Errorf("data at %d, len %d, cap %d", at(b, b.Data()), len(b.Data()), cap(b.Data()))
	}
	want := []struct{ head, headLen, data, dataLen int }{
		{0, 1024, 0, 0},
		{4128, 24, 1024, 1000},
		{4152, 24, 2024, 1000},
		{4176, 24, 3024, 1000},
		{4200, 24, 4024, 50},
	}
	if got := b.Packets(1000); got != len(want) {
		t.Fatalf("%d packets, want %d", got, len(want))
	}
	for i, w := range want {
		head, data := b.Packet(i, 1000)
		if at(b, head) != w.head || len(head) != w.headLen || len(data) != w.dataLen ||
			i > 0 && at(b, data) != w.data {
			t.Errorf("packet %d: head at %d len %d, data at %d len %d; want %+v",
				i, at(b, head), len(head), at(b, data), len(data), w)
		}
		if i == 0 && data != nil {
			t.Error("packet 0 has separate data")
		}
	}
	b.Free()
	closePool(t, p)
}

func TestBufferIsOneCacheLine(t *testing.T) {
	if n := unsafe.Sizeof(Buffer{}); unsafe.Sizeof(uintptr(0)) == 8 && n != lineSize {
		t.Errorf("Buffer has %d bytes", n)
	}
}

// TestSmallIsCacheLines checks that small messages with their header take as few
// cache lines as they can.
func TestSmallIsCacheLines(t *testing.T) {
	p := newPool(t, Config{})
	for n := 0; n <= 232; n++ {
		b := alloc(t, p, n)
		if want := max(1, (wire.HeaderSize+n+lineSize-1)/lineSize) * lineSize; len(b.mem) != want {
			t.Errorf("size %d takes %d bytes, want %d", n, len(b.mem), want)
		}
		b.Free()
	}
	closePool(t, p)
}

// sizes returns small sizes, all of them for the usual pool, and those around every
// class border.
func sizes(p *Pool) []int {
	var all []int
	step := 11
	if p.max == DefaultMaxMessage || p.max < 1000 {
		step = 1
	}
	for n := 0; n <= min(5000, p.max); n += step {
		all = append(all, n)
	}
	for i := range p.last + 1 {
		for d := -2; d <= 2; d++ {
			for _, n := range []int{int(p.classes[i].data) + d, int(p.classes[i].chunk) + d, 1<<(i/2+8) + d,
				3<<(i/2+7) + d} {
				if n >= 0 && n <= p.max {
					all = append(all, n)
				}
			}
		}
	}
	return all
}

// TestSizes checks every size against the layout rules and a linear search.
func TestSizes(t *testing.T) {
	for _, maxMessage := range []int{1, 40, 41, 100, 1000, 1 << 20, 8_000_000, 8 << 20, 16 << 20,
		wire.MaxMsgSize} {
		p := newPool(t, Config{MaxMessage: maxMessage})
		if got := int(p.classes[p.last].data); got != maxMessage {
			t.Errorf("MaxMessage %d: the last class takes %d", maxMessage, got)
		}
		for _, n := range sizes(p) {
			i := uint(0)
			for int(p.classes[i].data) < n {
				i++
			}
			if got := p.classOf(n); got != i {
				t.Fatalf("MaxMessage %d, size %d: class %d, want %d", maxMessage, n, got, i)
			}
			if n > 16<<20 {
				continue // addresses only; no need to map all of it
			}
			b := alloc(t, p, n)
			if b.Size() != n || len(b.Data()) != n || len(b.Bytes()) != n || b.MaxSize() < n ||
				b.Owner() != OwnerApp {
				t.Fatalf("size %d: %d, data %d, max %d, owner %v", n, b.Size(), len(b.Data()),
					b.MaxSize(), b.Owner())
			}
			if n > 0 {
				b.Data()[0], b.Data()[n-1] = 1, 2
			}
			checkPackets(t, b, 1000)
			b.Free()
		}
		if _, err := p.Alloc(maxMessage + 1); err != ErrTooLarge {
			t.Errorf("one more than MaxMessage: %v", err)
		}
		if _, err := p.Alloc(-1); err != ErrTooLarge {
			t.Errorf("negative size: %v", err)
		}
		closePool(t, p)
	}
}

// TestWaste bounds the memory that a class costs beyond what a message needs.
func TestWaste(t *testing.T) {
	p := newPool(t, Config{MaxMessage: wire.MaxMsgSize})
	for _, n := range sizes(p) {
		chunk := int(p.classes[p.classOf(n)].chunk)
		if limit := chunkNeed(n) + max(lineSize, n/2+n/50); chunk > limit {
			t.Errorf("size %d takes %d bytes, more than %d", n, chunk, limit)
		}
	}
	for n := 256; n < wire.MaxMsgSize; n *= 2 { // the sizes that programs use
		unit := lineSize
		if n >= largeChunk {
			unit = 4096
		}
		if chunk := int(p.classes[p.classOf(n)].chunk); chunk >= chunkNeed(n)+unit {
			t.Errorf("size %d takes %d bytes, needs %d", n, chunk, chunkNeed(n))
		}
	}
}

// checkPackets checks that the packets of b cover its data exactly once, in order, and that
// headers overlap neither data nor each other, and that all is within the chunk.
func checkPackets(t *testing.T, b *Buffer, perPacket int) {
	t.Helper()
	n := b.Packets(perPacket)
	if want := max(1, (b.Size()+perPacket-1)/perPacket); n != want {
		t.Fatalf("size %d: %d packets of %d bytes, want %d", b.Size(), n, perPacket, want)
	}
	head, data := b.Packet(0, perPacket)
	if at(b, head) != 0 || uintptr(unsafe.Pointer(&head[0]))%lineSize != 0 || data != nil {
		t.Fatalf("size %d: packet 0 is at %d (%p), data %d", b.Size(), at(b, head), &head[0], len(data))
	}
	dataEnd := len(head)                     // the data so far ends here
	headEnd := wire.HeaderSize + b.MaxSize() // and the headers here
	for i := 1; i < n; i++ {
		head, data := b.Packet(i, perPacket)
		if at(b, data) != dataEnd || len(data) == 0 || len(data) > perPacket ||
			i < n-1 && len(data) != perPacket {
			t.Fatalf("size %d, %d per packet: data of packet %d at %d, %d bytes", b.Size(), perPacket, i,
				at(b, data), len(data))
		}
		dataEnd += len(data)
		if at(b, head) < headEnd || len(head) != wire.HeaderSize {
			t.Fatalf("size %d, %d per packet: header of packet %d at %d, before %d", b.Size(), perPacket, i,
				at(b, head), headEnd)
		}
		headEnd = at(b, head) + len(head)
	}
	if dataEnd != wire.HeaderSize+b.Size() || headEnd > len(b.mem) && n > 1 {
		t.Fatalf("size %d, %d per packet: data ends at %d, headers at %d of %d", b.Size(), perPacket,
			dataEnd, headEnd, len(b.mem))
	}
}

// TestPackets is checkPackets for random sizes and packet sizes, resized in between.
func TestPackets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := newPool(t, Config{MaxMessage: 16 << 20})
	perPacket := []int{1000, 1001, 1024, 1376, 1448, 3816, 4096, 8952, 65483}
	for range 300 {
		b := alloc(t, p, rnd.IntN(1<<rnd.IntN(25)))
		for _, per := range append(perPacket, 1000+rnd.IntN(64000)) {
			checkPackets(t, b, per)
		}
		for _, n := range []int{b.MaxSize(), 0, 1, rnd.IntN(b.MaxSize() + 1)} {
			if err := b.Resize(n); err != nil {
				t.Fatal(err)
			}
			checkPackets(t, b, 1000)
			checkPackets(t, b, 1448)
		}
		b.Free()
	}
	for _, n := range []int{8 << 20, 16 << 20} {
		b := alloc(t, p, n)
		for _, per := range perPacket {
			checkPackets(t, b, per)
		}
		b.Free()
	}
	closePool(t, p)
}

// TestSmallPerPacket checks that a small perPacket is fine with one packet, and
// that one without header room panics instead of leaving the chunk.
func TestSmallPerPacket(t *testing.T) {
	p := newPool(t, Config{})
	b := alloc(t, p, 500)
	if head, _ := b.Packet(0, 500); b.Packets(500) != 1 || len(head) != 524 {
		t.Errorf("%d packets, %d bytes", b.Packets(500), len(head))
	}
	if n := b.Packets(10); n != 50 || !panics(func() { b.Packet(n-1, 10) }) {
		t.Errorf("%d packets; header 49 was found", n)
	}
	b.Free()
	closePool(t, p)
}

func TestResizeKeepsData(t *testing.T) {
	p := newPool(t, Config{})
	b := alloc(t, p, 3)
	copy(b.Data(), "abc")
	if err := b.Resize(b.MaxSize()); err != nil {
		t.Fatal(err)
	}
	if string(b.Data()[:3]) != "abc" || len(b.Data()) != b.MaxSize() {
		t.Error("data changed")
	}
	for _, n := range []int{-1, b.MaxSize() + 1, 1 << 30} {
		if err := b.Resize(n); err != ErrTooLarge {
			t.Errorf("Resize(%d): %v", n, err)
		}
	}
	b.SetSize(2)
	if string(b.Bytes()) != "ab" || b.Size() != 2 {
		t.Errorf("data %q, size %d", b.Bytes(), b.Size())
	}
	b.Free()
	closePool(t, p)
}
