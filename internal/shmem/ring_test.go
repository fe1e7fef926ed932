package shmem

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"
)

const testRing, testLimit = 8192, 700 // the least ring for it

// aligned returns zero memory for a pair.
func aligned(size int) []byte {
	mem := make([]byte, size+CellSize)
	skip := -int(uintptr(unsafe.Pointer(&mem[0]))) & (CellSize - 1)
	return mem[skip : skip+size : skip+size]
}

// pair returns the writer of side 0 and the reader of side 1, and their memory.
func pair(t testing.TB) (*Producer, *Consumer, []byte) {
	t.Helper()
	mem := aligned(PairSize(testRing))
	p, _, err := Attach(mem, testRing, testLimit, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, c, err := Attach(mem, testRing, testLimit, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p, c, mem
}

// header returns the header word that an honest writer writes at a position.
func header(pos uint64, length int) uint64 { return pos<<posShift | kindPacket | uint64(length) }

// padTo returns the header word of a pad.
func padTo(pos, end uint64) uint64 { return pos<<posShift | kindPad | (end - pos) }

// TestOrder: where packets of so many cells begin, in cells.
func TestOrder(t *testing.T) {
	p, c, mem := pair(t)
	private := NewArena(64)
	for _, step := range []struct {
		cells int
		at    uint64
	}{
		{1, 0}, {1, 19}, {1, 6}, {1, 25}, // a block of single cells
		{3, 32}, {1, 35}, {2, 36}, // a block in order, from the next one on
		{11, 38}, {11, 49}, {11, 60}, // up to the middle of the next
		{1, 71}, {11, 72}, {11, 83}, {1, 94}, {1, 95}, // which ends in order
		{1, 96}, {1, 115}, // and again
		{11, 0}, {1, 11}, // a large one does not fit behind these
	} {
		pkt := make([]byte, max(1, (step.cells-1)*CellSize))
		pkt[0] = 77
		if !p.Put(pkt, nil) {
			t.Fatal("the ring is full")
		}
		p.Publish()
		if mem[ringsAt+step.at*CellSize+HeaderSize] != 77 {
			t.Fatalf("a packet of %d cells is not in cell %d", step.cells, step.at)
		}
		mem[ringsAt+step.at*CellSize+HeaderSize]++
		if got, ok := c.Next(&private); !ok || len(got) != len(pkt) || got[0] != 78 {
			t.Fatalf("the packet of %d cells in cell %d does not come", step.cells, step.at)
		}
		c.Free()
	}
	seen := map[uint64]bool{}
	for pos := range uint64(4 * block) {
		if at := place(pos, scatter); seen[at] || at/block != pos/block || place(pos, inOrder) != pos {
			t.Fatalf("position %d is in cell %d", pos, at)
		} else {
			seen[at] = true
		}
	}
}

// TestRing sends packets of random sizes in random bursts for many rounds of the ring.
// Their bytes look like header words of the rounds to come: stale memory must never be
// taken for a packet.
func TestRing(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		p, c, _ := pair(t)
		private := NewArena(64)
		var want [][]byte
		for sent := 0; sent < 3000; {
			for range r.IntN(8) {
				pkt := make([]byte, r.IntN(testLimit+1))
				if r.IntN(2) == 0 {
					pkt = pkt[:min(len(pkt), r.IntN(60))]
				}
				lap := uint64(testRing / CellSize)
				for i := 0; i+8 <= len(pkt); i += 8 {
					pos := p.tail + lap + uint64(i+HeaderSize)/CellSize
					if r.IntN(2) == 0 {
						pos = place(pos, 27) // 27*scatter is 1 modulo block
					}
					binary.NativeEndian.PutUint64(pkt[i:], header(pos, 16))
				}
				cut := min(len(pkt), []int{0, 24, 7, len(pkt)}[r.IntN(4)])
				if p.Put(pkt[:cut], pkt[cut:]) {
					want = append(want, pkt)
					sent++
				}
			}
			if n := p.Unpublished(); n > 0 && len(want) > 0 && c.head == p.start && c.Ready() {
				t.Fatalf("seed %d: %d cells seen before they were published", seed, n)
			}
			if r.IntN(4) > 0 {
				p.Publish()
			}
			c.Free()
			private.Reset()
			for range r.IntN(10) {
				got, ok := c.Next(&private)
				if !ok {
					break
				}
				if len(want) == 0 || string(got) != string(want[0]) {
					t.Fatalf("seed %d: a packet of %d bytes that was not sent", seed, len(got))
				}
				if cap(got) != len(got) && len(got) <= CopyMax {
					t.Fatal("a packet with room behind it")
				}
				want = want[1:]
			}
			if p.Broken() || c.Broken() {
				t.Fatalf("seed %d: dead after %d packets", seed, sent)
			}
		}
		p.Publish()
		for range 10000 {
			c.Free()
			private.Reset()
			if _, ok := c.Next(&private); ok {
				want = want[1:]
			}
		}
		if len(want) > 0 {
			t.Fatalf("seed %d: %d packets missing", seed, len(want))
		}
	}
}

// TestFull: a full ring takes nothing, and takes something again after Free.
func TestFull(t *testing.T) {
	p, c, _ := pair(t)
	private := NewArena(64)
	n := 0
	for p.Put(nil, make([]byte, 30)) {
		n++
	}
	if n != testRing/CellSize-1 {
		t.Errorf("%d packets of a cell, want all cells but one", n)
	}
	p.Publish()
	for range n {
		if _, ok := c.Next(&private); !ok {
			t.Fatal("a packet is missing")
		}
	}
	if p.Put(nil, []byte{1}) {
		t.Error("put into cells that the reader still holds")
	}
	c.Free()
	if !p.Put(nil, make([]byte, testLimit)) {
		t.Error("an empty ring does not take the largest packet")
	}
	if p.Put(nil, make([]byte, testLimit+1)) {
		t.Error("put more than the limit")
	}
	none := NoProducer()
	if none.Put(nil, nil) {
		t.Error("a writer without a ring takes packets")
	}
	none.Publish()
}

func TestAttachRefuses(t *testing.T) {
	for _, x := range []struct{ memory, ring, limit int }{
		{PairSize(8192), 8192, 0}, {PairSize(8192), 8192, -1}, {PairSize(8192), 8192, 63},
		{PairSize(8192), 8192, 4000},
		{PairSize(8192), 8192, 1 << 30}, {PairSize(8192) - 1, 8192, 700}, {PairSize(8192), 16384, 700},
		{PairSize(8192), 0, 700},
		{PairSize(8192), -8192, 700}, {PairSize(5000), 5000, 700}, {PairSize(2048), 2048, 64},
		{0, 8192, 64},
	} {
		if _, _, err := Attach(aligned(x.memory), x.ring, x.limit, 0); err == nil {
			t.Errorf("%+v: no error", x)
		}
	}
	if _, _, err := Attach(aligned(PairSize(8192) + 8)[8:], 8192, 700, 0); err == nil {
		t.Error("memory that is not aligned: no error")
	}
}

// inside fails unless a packet lies in the ring or in private memory.
func inside(t *testing.T, mem []byte, private *Arena, pkt []byte) {
	t.Helper()
	if len(pkt) == 0 {
		return
	}
	at := uintptr(unsafe.Pointer(&pkt[0]))
	in := func(m []byte) bool {
		from := uintptr(unsafe.Pointer(&m[0]))
		return at >= from && at+uintptr(len(pkt)) <= from+uintptr(len(m))
	}
	switch {
	case len(pkt) > testLimit:
		t.Fatalf("a packet of %d bytes", len(pkt))
	case len(pkt) > CopyMax && !in(mem[ringsAt:ringsAt+testRing]):
		t.Fatal("a large packet outside the ring")
	case len(pkt) <= CopyMax && in(mem):
		t.Fatal("a small packet in shared memory")
	}
}

// FuzzConsumer writes what the input says to header words, at and around where the
// reader stands. Nothing that it returns may lie outside the ring, and once dead it stays so.
func FuzzConsumer(f *testing.F) {
	add := func(words ...uint64) {
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		f.Add(b)
	}
	add(header(0, 56), header(1, 700), header(12, 3))
	add(header(0, 700), header(12, 700), header(24, 700), header(36, 700), header(48, 500),
		header(57, 0), header(58, 700))
	add(header(0, 701))
	add(header(1, 5))
	add(kindPad)
	add(header(0, 20), padTo(1, 32), header(32, 700))
	add(header(0, 20), padTo(1, 128), header(128, 700))
	add(header(0, 20), header(1, 700))
	add(header(0, 20), padTo(1, 31), padTo(1, 160))
	add(^uint64(0), 0, 1)
	f.Fuzz(func(t *testing.T, in []byte) {
		_, c, mem := pair(t)
		private := NewArena(4)
		for len(in) >= 8 {
			word := binary.LittleEndian.Uint64(in)
			in = in[8:]
			if word%7 == 0 { // also as an honest writer would
				word = header(c.head, int(word>>32%800))
			} else if word%11 == 0 {
				word = padTo(c.head, (c.head|blockMask)+1)
			}
			*c.word() = word
			broken := c.Broken()
			pkt, ok := c.Next(&private)
			if ok && broken {
				t.Fatal("a dead ring returns packets")
			}
			inside(t, mem, &private, pkt)
			if word%3 == 0 {
				c.Free()
				private.Reset()
			}
		}
	})
}

// FuzzProducer lets the reader say anything about how far it is.
func FuzzProducer(f *testing.F) {
	f.Add(uint64(1), uint64(63), []byte{10, 200})
	f.Add(^uint64(0), uint64(1)<<63, []byte{255, 255, 0})
	f.Fuzz(func(t *testing.T, x, y uint64, sizes []byte) {
		p, c, mem := pair(t)
		guard := string(mem[ringsAt+testRing:]) // the other ring
		for i, n := range sizes {
			*c.own = []uint64{x, y, p.tail, p.head}[i%4]
			p.Put(nil, make([]byte, int(n)*testLimit/255))
			if p.tail-p.head > testRing/CellSize {
				t.Fatal("more cells in use than there are")
			}
			p.Publish()
		}
		if string(mem[ringsAt+testRing:]) != guard {
			t.Fatal("wrote outside the ring")
		}
	})
}

func TestRingAllocs(t *testing.T) {
	p, c, _ := pair(t)
	private := NewArena(8)
	packet := make([]byte, 300)
	if n := testing.AllocsPerRun(1000, func() {
		private.Reset()
		c.Free()
		p.Put(packet[:24], packet[24:])
		p.Put(packet[:24], packet[24:56])
		p.Put(packet[:24], packet[24:150])
		p.Publish()
		for range 3 {
			if _, ok := c.Next(&private); !ok {
				t.Fatal("a packet is missing")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations a burst", n)
	}
}

func TestBell(t *testing.T) {
	mem := aligned(BellSize)
	b, l := NewBell(mem), NewListener(mem)
	b.GetUp() // without sleep: nothing
	for range 3 {
		if l.Asleep() {
			t.Fatal("asleep while awake")
		}
		b.Sleep()
		b.Sleep()
		if !l.Asleep() || l.Asleep() {
			t.Fatal("a sleep is to be told of once")
		}
		second := NewListener(mem)
		if !second.Asleep() {
			t.Fatal("another sender is not told")
		}
		b.GetUp()
	}
}
