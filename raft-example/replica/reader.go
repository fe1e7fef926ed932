package replica

import (
	"bytes"
	"fmt"
	"io"

	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// Source gives out the data of a snapshot once, in order, and says how many bytes it has.
type Source interface {
	io.Reader
	Size() uint64
}

// whole is a Source of bytes that are there.
type whole struct{ *bytes.Reader }

func newWhole(b []byte) whole { return whole{bytes.NewReader(b)} }

// Size implements Source.
func (w whole) Size() uint64 { return uint64(w.Reader.Size()) }

// Reader makes the state of a replica of the data of a snapshot as it comes, and holds no more of
// that than what leads it.
type Reader struct {
	size    uint64
	head    []byte // of the data, before the members are whole
	members map[uint64]string
	timing  agreed
	loader  *kv.Loader // once they are
	err     error
}

// mostHead bounds the bytes of the members in a snapshot.
const mostHead = 64 << 10

// NewReader begins to read data of size bytes.
func NewReader(size uint64) *Reader { return &Reader{size: size} }

// Write implements io.Writer. The error is kv.ErrSnapshot.
func (l *Reader) Write(b []byte) (n int, err error) {
	if l.err != nil {
		return 0, l.err
	}
	n = len(b)
	if l.loader == nil {
		had := len(l.head)
		l.head = append(l.head, b[:min(n, mostHead)]...)
		members, timing, rest, ok := parseHead(l.head)
		used := len(l.head) - len(rest)
		switch {
		case uint64(used) > l.size, !ok && len(l.head) >= mostHead:
			l.err = fmt.Errorf("%w: its members", kv.ErrSnapshot)
			return 0, l.err
		case !ok:
			return n, nil
		}
		l.members, l.timing, l.loader = members, timing, kv.NewLoader(l.size-uint64(used))
		b, l.head = b[used-had:], nil
	}
	if _, l.err = l.loader.Write(b); l.err != nil {
		return 0, l.err
	}
	return n, nil
}

// readAll reads all of a source. Errors: kv.ErrSnapshot, those of the source.
func readAll(from Source) (*Reader, error) {
	l := NewReader(from.Size())
	_, err := io.CopyBuffer(l, from, make([]byte, 1<<20))
	return l, err
}

// Store returns the store once all is read. The error is kv.ErrSnapshot.
func (l *Reader) Store() (*kv.Store, error) {
	switch {
	case l.err != nil:
		return nil, l.err
	case l.loader == nil:
		return nil, fmt.Errorf("%w: its members", kv.ErrSnapshot)
	}
	return l.loader.Store()
}
