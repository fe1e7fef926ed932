package sys

import (
	"strings"
	"unsafe"
)

// ClonePieces returns a copy of data on the heap, and calls between after each piece bytes but for
// the last ones, with how many have been copied. Its memory is not cleared before: to clear some
// MiB takes as long as to copy them, in one go.
func ClonePieces(data []byte, piece int, between func(at int)) []byte {
	if len(data) == 0 {
		return nil
	}
	var b strings.Builder // the one way to such memory
	b.Grow(len(data))
	for at := 0; at < len(data); at += piece {
		if at > 0 {
			between(at)
		}
		b.Write(data[at:min(at+piece, len(data))])
	}
	return unsafe.Slice(unsafe.StringData(b.String()), len(data)) // nobody else has the string
}
