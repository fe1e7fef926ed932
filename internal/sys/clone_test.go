package sys

import (
	"bytes"
	"testing"
)

// TestClonePieces: the copy is the caller's own, made in as many pieces as are needed.
func TestClonePieces(t *testing.T) {
	for _, c := range []struct{ size, piece, between int }{
		{0, 4, 0}, {1, 4, 0}, {4, 4, 0}, {5, 4, 1}, {8, 4, 1}, {1000, 7, 142}, {1 << 20, 1 << 17, 7},
	} {
		data := bytes.Repeat([]byte{1, 2, 3}, c.size)[:c.size]
		calls := 0
		got := ClonePieces(data, c.piece, func(at int) {
			if calls++; at != calls*c.piece {
				t.Errorf("%d bytes by %d: %d were copied after %d pieces", c.size, c.piece, at, calls)
			}
		})
		if !bytes.Equal(got, data) || calls != c.between {
			t.Errorf("%d bytes by %d: %d bytes, %d times between", c.size, c.piece, len(got), calls)
		}
		for i := range got {
			got[i] = 9
		}
		if bytes.IndexByte(data, 9) >= 0 {
			t.Error("the copy is the original")
		}
	}
}
