package msgbuf

import (
	"strconv"
	"testing"
)

var sink int

func BenchmarkAllocFree(b *testing.B) {
	for _, shared := range []bool{false, true} {
		for _, n := range []int{32, 1000, 100_000, 1 << 20, 8 << 20} {
			b.Run("shared="+strconv.FormatBool(shared)+"/"+strconv.Itoa(n), func(b *testing.B) {
				p, err := NewPool(Config{Shared: shared})
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				b.ReportAllocs()
				for b.Loop() {
					m, err := p.Alloc(n)
					if err != nil {
						b.Fatal(err)
					}
					m.Free()
				}
			})
		}
	}
}

func BenchmarkPacket0(b *testing.B) {
	p, _ := NewPool(Config{})
	m, err := p.Alloc(32)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		head, data := m.Packet(0, 1000)
		sink += len(head) + len(data)
	}
}

func BenchmarkPacketLater(b *testing.B) {
	p, _ := NewPool(Config{})
	m, err := p.Alloc(1 << 20)
	if err != nil {
		b.Fatal(err)
	}
	i := 1
	for b.Loop() {
		head, data := m.Packet(i, 1400)
		sink += len(head) + len(data)
		if i++; i == 700 {
			i = 1
		}
	}
}

func BenchmarkLendReturn(b *testing.B) {
	p, _ := NewPool(Config{})
	m, err := p.Alloc(32)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if m.Lend() == nil {
			m.Return()
		}
	}
}
