package shmem

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappedPair returns a writer and a reader of one ring on a mapping of their own, and
// another mapping of the same memory.
func mappedPair(t testing.TB) (p *Producer, c *Consumer, mem, other []byte) {
	t.Helper()
	fd, mem, err := Create(PairSize(testRing))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if other, err = Open(fd, PairSize(testRing)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Unmap(mem); Unmap(other) })
	if p, _, err = Attach(mem, testRing, testLimit, 0); err != nil {
		t.Fatal(err)
	}
	if _, c, err = Attach(mem, testRing, testLimit, 1); err != nil {
		t.Fatal(err)
	}
	return p, c, mem, other
}

// TestTwoThreads moves packets between two threads, and checks their order and bytes.
func TestTwoThreads(t *testing.T) {
	const packets = 50_000
	p, _, _, other := mappedPair(t)
	_, c, err := Attach(other, testRing, testLimit, 1)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		packet := make([]byte, testLimit)
		for i := 0; i < packets; {
			for b := range packet {
				packet[b] = byte(i)
			}
			if p.Put(packet[:24], packet[24:24+i%(testLimit-24)]) {
				i++
			}
			if i%5 == 0 || i == packets || p.Unpublished() > 20 {
				p.Publish()
			}
		}
	}()
	private := NewArena(1)
	for i := 0; i < packets; {
		c.Free()
		private.Reset()
		pkt, ok := c.Next(&private)
		if !ok {
			if c.Broken() {
				t.Fatal("dead")
			}
			continue
		}
		if len(pkt) != 24+i%(testLimit-24) || pkt[0] != byte(i) || pkt[len(pkt)-1] != byte(i) {
			t.Fatalf("packet %d is wrong", i)
		}
		i++
	}
}

func TestOpenRefuses(t *testing.T) {
	memfd := func(size, flags, seals int) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|flags)
		if err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal("memfd:", err)
			}
			t.Skip("memfd:", err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Ftruncate(fd, int64(size)); err != nil {
			t.Fatal(err)
		}
		if seals != 0 {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
				t.Fatal(err)
			}
		}
		return fd
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(8192); err != nil {
		t.Fatal(err)
	}
	sealing := unix.MFD_ALLOW_SEALING
	for _, x := range []struct {
		name string
		fd   int
	}{
		{"no seals", memfd(8192, sealing, 0)},
		{"sealing forbidden", memfd(8192, 0, 0)},
		{"may shrink", memfd(8192, sealing, unix.F_SEAL_GROW|unix.F_SEAL_SEAL)},
		{"may be sealed more", memfd(8192, sealing, unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)},
		{"too small", memfd(4096, sealing, sizeSeals)},
		{"too large", memfd(16384, sealing, sizeSeals)},
		{"read-only", memfd(8192, sealing, sizeSeals|unix.F_SEAL_WRITE)},
		{"a file on disk", int(file.Fd())},
		{"no file", 1 << 20},
	} {
		mem, err := Open(x.fd, 8192)
		if !errors.Is(err, ErrUnsafeFile) || mem != nil {
			t.Errorf("%s: %v, want ErrUnsafeFile", x.name, err)
		}
	}
}

// TestBellIsReadOnly: who got a bell cannot write to it.
func TestBellIsReadOnly(t *testing.T) {
	fd, mem, err := CreateBell()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bell:", err)
		}
		t.Skip("bell:", err)
	}
	defer unix.Close(fd)
	defer Unmap(mem)
	other, err := OpenBell(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(other)
	NewBell(mem).Sleep()
	l := NewListener(other)
	if !l.Asleep() {
		t.Error("the other mapping does not show the sleep")
	}
	if err := unix.Mprotect(other, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		t.Error("the other mapping can be made writable")
	}
	if _, err := mapFile(fd, BellSize, unix.PROT_READ|unix.PROT_WRITE); err == nil {
		t.Error("another writable mapping was made")
	}
	if _, err := unix.Pwrite(fd, []byte{1}, 0); err == nil {
		t.Error("the file can be written")
	}
}

// TestGarbage writes random words all over the shared memory while the other side polls
// and sends. Both sides use mappings of their own, as two processes do.
func TestGarbage(t *testing.T) {
	for seed := range uint64(20) {
		p, c, _, other := mappedPair(t)
		var stop atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r := rand.New(rand.NewPCG(seed, 2))
			for !stop.Load() {
				at := r.IntN(len(other)/8) * 8
				word := r.Uint64()
				if r.IntN(2) == 0 {
					word = header(uint64(r.IntN(200)), r.IntN(800))
				} else if pos := uint64(r.IntN(200)); r.IntN(4) == 0 {
					word = padTo(pos, (pos|blockMask)+1)
				}
				atomic.StoreUint64((*uint64)(unsafe.Pointer(&other[at])), word)
			}
		}()
		private := NewArena(16)
		packet := make([]byte, 300)
		for range 20000 {
			p.Put(packet[:24], packet[24:])
			p.Publish()
			c.Free()
			private.Reset()
			for range 8 {
				pkt, ok := c.Next(&private)
				if !ok {
					break
				}
				if len(pkt) > testLimit {
					t.Errorf("a packet of %d bytes", len(pkt))
				}
				sum := byte(0)
				for _, b := range pkt { // a fault if it lies outside
					sum += b
				}
				_ = sum
			}
		}
		stop.Store(true)
		<-ended
	}
}
