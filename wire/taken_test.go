package wire

import (
	"bytes"
	"testing"
)

// TestTaken: the numbers come back, also from behind an extension of another type, and a broken or
// missing extension says nothing.
func TestTaken(t *testing.T) {
	ext := AppendTaken(nil, 2)
	ext = AppendNumber(AppendNumber(ext, 7), MaxReqNum)
	other := AppendExtension(nil, Extension{Type: 0xABCD, Value: []byte("abc")})
	for _, b := range [][]byte{ext, append(bytes.Clone(other), ext...), append(bytes.Clone(ext), 1)} {
		if got := FindTaken(b); got.Slots() != 2 || got.At(0) != 7 || got.At(1) != MaxReqNum {
			t.Errorf("%x: %x", b, got)
		}
	}
	odd := AppendExtension(nil, Extension{Type: ExtTaken, Value: make([]byte, 9)})
	for _, b := range [][]byte{nil, other, odd, ext[:len(ext)-1], ext[:3], {1}} {
		if got := FindTaken(b); got.Slots() != 0 {
			t.Errorf("%x: %x", b, got)
		}
	}
}
