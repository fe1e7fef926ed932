package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// TestDigits: all digits of a number, the lowest one first.
func TestDigits(t *testing.T) {
	for _, n := range []uint32{0, 9, 0xA, 0xF, 0x12345678, 0x9ABCDEF0, 1<<32 - 1} {
		got := binary.LittleEndian.AppendUint64(nil, digits(n))
		slices.Reverse(got)
		if want := fmt.Sprintf("%08x", n); string(got) != want {
			t.Errorf("%q, want %s", got, want)
		}
	}
}
