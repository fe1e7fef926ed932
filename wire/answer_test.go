package wire

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
)

// TestHandWrittenNumbers compares with bytes that were laid out by hand from doc.go: where packet
// and request numbers stand in Version.
func TestHandWrittenNumbers(t *testing.T) {
	h := Header{Type: TypeReq, ReqType: 1, MsgSize: 0x0ABCDEF, Session: 4, ReqNum: 0xA0B0C0D0E0F,
		PktNum: 0x12345}
	for name, tt := range map[string]struct {
		got  []byte
		want string
	}{
		"request": {packet(h, 6, nil),
			"30" + "01" + "0000" + "efcdab00" + "04000000" + "06000000" + "0f0e0d0c0b5a3412"},
		"bundle": {bundle(inside{h, 6, []byte("ab")}),
			"3a" + "01" + "1400" + "00000000" + "04000000" + "06000000" +
				"00" + "01" + "0000" + "0200" + "0f0e0d0c0b1a" + "efcdab00" + "4523" + "6162"},
		"holes": {AppendHole(AppendHole(nil, 0x12345, 1), 0xFFFFF, 3), "45230100" + "ffff2f00"},
	} {
		if got := hex.EncodeToString(tt.got); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tt.want)
		}
	}
}

// TestHostDelay: every delay comes back shorter by less than a sixteenth, or as the least or the
// longest; a longer one never as less.
func TestHostDelay(t *testing.T) {
	const unit, longest = 1024 * time.Nanosecond, 31 << 14 * 1024 * time.Nanosecond
	back := func(b uint8) time.Duration {
		h := Header{Type: TypeResp, ReqType: b, Version: Version}
		d, said := h.HostDelay()
		if said != (b != 0) {
			t.Fatalf("%d: %v, said %v", b, d, said)
		}
		return d
	}
	for b := range 256 {
		if b > 0 && back(uint8(b)) <= back(uint8(b-1)) || b > 0 && HostDelay(back(uint8(b))) != uint8(b) {
			t.Errorf("%d is %v, which is %d", b, back(uint8(b)), HostDelay(back(uint8(b))))
		}
	}
	if back(255) != longest || back(1) != unit || back(0) != 0 {
		t.Errorf("least %v, longest %v", back(1), back(255))
	}
	last := uint8(1)
	for d := time.Duration(-2000); d < 2*longest; d += max(100, d/1000) {
		b := HostDelay(d)
		got := back(b)
		switch {
		case b == 0 || b < last:
			t.Fatalf("%v: %d after %d", d, b, last)
		case d < unit:
			if b != 1 {
				t.Fatalf("%v: %d", d, b)
			}
		case d >= longest:
			if b != 255 {
				t.Fatalf("%v: %d", d, b)
			}
		case got > d || (d-got)*16 >= d && d-got >= unit:
			t.Fatalf("%v came back as %v", d, got)
		}
		last = b
	}
	if HostDelay(1<<63-1) != 255 || HostDelay(-1<<63) != 1 {
		t.Error("the ends of the range")
	}
}

// TestHostDelayOfAnswers: only what a server answers says one, in Version.
func TestHostDelayOfAnswers(t *testing.T) {
	for typ := range Type(numTypes) {
		for _, version := range []uint8{OldVersion, Version} {
			h, _ := least(typ)
			h.ReqType, h.Version = 7, version
			answer := typ == TypeCR || typ == TypeResp || typ == TypeErr || typ == TypeWait ||
				typ == TypePast
			if _, said := h.HostDelay(); said != (answer && version == Version) {
				t.Errorf("%v of version %d: said %v", typ, version, said)
			}
		}
	}
}

// TestHoles: what AppendHole writes ParseHoles reads.
func TestHoles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	type hole struct{ first, count uint32 }
	for range 2000 {
		var list []hole
		var b []byte
		for at := r.Uint32N(9); len(list) < MaxHoles && at < MaxPackets; {
			x := hole{at, 1 + r.Uint32N(min(MaxHole, MaxPackets-at))}
			list, b = append(list, x), AppendHole(b, x.first, x.count)
			at += x.count + 1 + r.Uint32N(40_000)
		}
		h, err := ParseHoles(b)
		if err != nil || h.Len() != len(list) {
			t.Fatalf("%v: %v, %d holes", list, err, h.Len())
		}
		for i, want := range list {
			if first, count := h.At(i); (hole{first, count}) != want {
				t.Fatalf("hole %d of %v: %d, %d", i, list, first, count)
			}
		}
	}
}

// TestBadHoles: lists that no sender makes.
func TestBadHoles(t *testing.T) {
	list := func(holes ...uint32) (b []byte) {
		for i := 0; i < len(holes); i += 2 {
			b = AppendHole(b, holes[i], holes[i+1])
		}
		return b
	}
	many := make([]uint32, 2*MaxHoles)
	for i := range MaxHoles {
		many[2*i], many[2*i+1] = uint32(2*i), 1
	}
	for name, b := range map[string][]byte{
		"last packet": list(MaxPackets-1, 1), "largest": list(0, MaxHole),
		"to the end": list(MaxPackets-MaxHole, MaxHole), "one packet between": list(3, 1, 5, 1),
		"most": list(many...),
	} {
		if _, err := ParseHoles(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"none": nil, "half of one": list(3, 1)[:2], "and a half": append(list(3, 1), 0, 0),
		"beyond the last packet": list(MaxPackets-1, 2), "far beyond": list(MaxPackets-1, MaxHole),
		"touching": list(3, 2, 5, 1), "overlapping": list(3, 4, 5, 9), "the same": list(3, 1, 3, 1),
		"descending": list(9, 1, 3, 1), "too many": list(append(many, 200, 1)...),
		"the second beyond": list(3, 1, MaxPackets-1, 2),
	} {
		if h, err := ParseHoles(b); err != ErrHoles || h != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := list(many...)
	if n := testing.AllocsPerRun(100, func() {
		if h, err := ParseHoles(b); err != nil || h.Len() != MaxHoles {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzHoles: ParseHoles never panics, and what it takes is in order and written back.
func FuzzHoles(f *testing.F) {
	f.Add(AppendHole(AppendHole(nil, 3, 1), 5, MaxHole))
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHoles(b)
		if err != nil {
			return
		}
		var again []byte
		end := -1
		for i := range h.Len() {
			first, count := h.At(i)
			if int(first) <= end || count == 0 || first+count > MaxPackets {
				t.Fatalf("hole %d: %d packets from %d, the last one ended at %d", i, count, first, end)
			}
			end = int(first + count)
			again = AppendHole(again, first, count)
		}
		if string(again) != string(b) || len(b) > 4*MaxHoles {
			t.Fatalf("% x was written back as % x", b, again)
		}
	})
}

// TestHeaderSize: a header stays half a line of cache.
func TestHeaderSize(t *testing.T) {
	if n := unsafe.Sizeof(Header{}); n > 32 {
		t.Errorf("%d bytes", n)
	}
}
