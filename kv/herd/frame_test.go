package herd

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// TestGolden: the bytes of a frame do not change.
func TestGolden(t *testing.T) {
	b := make([]byte, 64)
	n := seal(b, copy(b, "hello, slot"), 3, markOf(0x0102030405, 7))
	const want = "68656c6c6f2c20736c6f740000000000" + "79478e940b000300" + "0705040302010000"
	if got := hex.EncodeToString(b[:n]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFrames: a sealed frame is opened and taken, of any length; damage anywhere is noticed, but in
// the padding and the try.
func TestFrames(t *testing.T) {
	const slot = 128
	buf := make([]byte, slot)
	for n := 0; n <= slot-tailSize; n++ {
		frame := aligned(slot)
		body := bytes.Repeat([]byte{byte(n + 1)}, n)
		m := markOf(uint64(n)+5, 9)
		size := seal(frame, copy(frame, body), 7, m)
		mem := aligned(slot)
		copy(mem[slot-size:], frame[:size])
		for i := -1; i < 8*size; i++ {
			if i >= 0 {
				mem[slot-size+i/8] ^= 1 << (i % 8)
			}
			got, kind, err := take(mem, buf, loadMark(mem))
			got2, kind2, m2, err2 := open(mem[slot-size:])
			padding := i >= 8*n && i < 8*(size-tailSize)
			try := i >= 8*(size-8) && i < 8*(size-7)
			if whole := i < 0 || padding || try; whole {
				if err != nil || err2 != nil || kind != 7 || kind2 != 7 || m2.Seq() != m.Seq() ||
					!bytes.Equal(got, body) || !bytes.Equal(got2, body) {
					t.Fatalf("%d bytes, bit %d: %v, %v", n, i, err, err2)
				}
			} else if err == nil || err2 == nil {
				t.Fatalf("%d bytes: bit %d is not noticed", n, i)
			}
			if i >= 0 {
				mem[slot-size+i/8] ^= 1 << (i % 8)
			}
		}
	}
	for _, n := range []int{0, 8, 15, 17, slot} {
		if _, _, _, err := open(make([]byte, n)); !errors.Is(err, ErrLength) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestGeometry(t *testing.T) {
	for _, g := range []Geometry{{}, {1, 1, 63}, {1, 1, 65}, {0, 1, 64}, {1, 0, 64}, {65, 1, 64},
		{1, 257, 64}, {1, 1, 4160}, {-1, 1, 64}} {
		if err := g.Check(); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", g, err)
		}
	}
	g := Geometry{2, 16, 1024}
	if err := g.Check(); err != nil || g.Slots() != 32 || g.Chunk() != 32<<10 || g.Body() != 1008 {
		t.Errorf("%v, %d slots, %d bytes", err, g.Slots(), g.Chunk())
	}
}
