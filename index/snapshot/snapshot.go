package snapshot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/userspace-rpc/erpc/index"
)

// Errors of Read.
var (
	ErrFormat  = errors.New("snapshot: not a snapshot of an index")
	ErrCut     = errors.New("snapshot: the file ends early")
	ErrDamaged = errors.New("snapshot: the file is damaged")
)

const (
	magic     = "eRPCidx\x01"
	blockSize = 1 << 16
	headSize  = 8
	tailSize  = 8 + 4
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Write writes a snapshot of m, as of at, and returns how many keys it has.
func Write(w io.Writer, m *index.Map, at time.Time) (keys uint64, err error) {
	out := bufio.NewWriterSize(w, 2*blockSize)
	stamp := binary.LittleEndian.AppendUint64(nil, uint64(at.UnixNano()))
	_, _ = out.WriteString(magic) // Flush gives the error of all writes
	_, _ = out.Write(stamp)
	var b []byte
	flush := func() {
		var head [headSize]byte
		binary.LittleEndian.PutUint32(head[:], uint32(len(b)))
		binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(b, table))
		_, _ = out.Write(head[:])
		_, err = out.Write(b)
		b = b[:0]
	}
	for key, value := range m.Ascend(nil) {
		b = append(append(b, byte(len(key))), key...)
		b = binary.LittleEndian.AppendUint64(b, value)
		if keys++; len(b) > blockSize-index.MaxKey-9 {
			if flush(); err != nil {
				return keys, err
			}
		}
	}
	if len(b) > 0 {
		flush()
	}
	flush()
	tail := binary.LittleEndian.AppendUint64(nil, keys)
	sum := crc32.Checksum(append(bytes.Clone(stamp), tail...), table)
	_, _ = out.Write(binary.LittleEndian.AppendUint32(tail, sum))
	return keys, out.Flush()
}

// Read reads a snapshot to its end. Errors: ErrFormat, ErrCut, ErrDamaged, those of r; then there
// is no map.
func Read(r io.Reader) (m *index.Map, at time.Time, err error) {
	in := bufio.NewReaderSize(r, 2*blockSize)
	head := make([]byte, len(magic)+8)
	if n, err := io.ReadFull(in, head); err != nil || string(head[:len(magic)]) != magic {
		if err != nil && bytes.HasPrefix([]byte(magic), head[:min(n, len(magic))]) && n > 0 {
			return nil, at, cut(err)
		}
		return nil, at, ErrFormat
	}
	stamp := head[len(magic):]
	m = index.NewMap()
	var keys uint64
	b := make([]byte, blockSize)
	var last []byte
	for {
		if _, err := io.ReadFull(in, b[:headSize]); err != nil {
			return nil, at, cut(err)
		}
		size, sum := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		if size > blockSize {
			return nil, at, fmt.Errorf("%w: a block of %d bytes", ErrDamaged, size)
		}
		if _, err := io.ReadFull(in, b[:size]); err != nil {
			return nil, at, cut(err)
		}
		if crc32.Checksum(b[:size], table) != sum {
			return nil, at, fmt.Errorf("%w: a block behind key %d", ErrDamaged, keys)
		}
		if size == 0 {
			break
		}
		n := uint64(0)
		if n, last, err = fill(m, b[:size], last, keys == 0); err != nil {
			return nil, at, err
		}
		keys += n
	}
	return end(in, m, stamp, keys)
}

// end reads what comes behind the last block.
func end(in *bufio.Reader, m *index.Map, stamp []byte, keys uint64) (*index.Map, time.Time, error) {
	var tail [tailSize + 1]byte
	n, err := io.ReadFull(in, tail[:])
	switch {
	case n < tailSize:
		return nil, time.Time{}, cut(err)
	case n > tailSize:
		return nil, time.Time{}, fmt.Errorf("%w: something is behind the end", ErrDamaged)
	}
	sum := crc32.Checksum(append(bytes.Clone(stamp), tail[:8]...), table)
	has := binary.LittleEndian.Uint64(tail[:])
	if sum != binary.LittleEndian.Uint32(tail[8:]) || has != keys {
		return nil, time.Time{}, fmt.Errorf("%w: %d keys, %d were written", ErrDamaged, keys, has)
	}
	return m, time.Unix(0, int64(binary.LittleEndian.Uint64(stamp))), nil
}

// fill stores the entries of a block, whose keys come after last.
func fill(m *index.Map, b, last []byte, first bool) (n uint64, end []byte, err error) {
	for len(b) > 0 {
		size := 1 + int(b[0])
		if size+8 > len(b) {
			return 0, nil, fmt.Errorf("%w: an entry goes beyond its block", ErrDamaged)
		}
		key := b[1:size]
		if !first && bytes.Compare(last, key) >= 0 {
			return 0, nil, fmt.Errorf("%w: keys out of order", ErrDamaged)
		}
		if _, _, err := m.Put(key, binary.LittleEndian.Uint64(b[size:])); err != nil {
			return 0, nil, err
		}
		first, last = false, key
		b = b[size+8:]
		n++
	}
	return n, bytes.Clone(last), nil
}

func cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrCut
	}
	return err
}

// Save writes a snapshot to a file, in place of an older one once all of it is on the disk. On
// Linux it removes the incomplete ones of that name that processes left when they were killed.
func Save(name string, m *index.Map, at time.Time) (keys uint64, err error) {
	removeRest(name)
	f, err := create(name)
	if err != nil {
		return 0, err
	}
	keys, err = Write(f, m, at)
	if err == nil {
		err = f.Sync()
	}
	if err == nil && locks { // nobody removes it between
		err = os.Rename(f.Name(), name)
	}
	if err = errors.Join(err, f.Close()); err == nil && !locks {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(f.Name()))
	}
	if d, err := os.Open(filepath.Dir(name)); err == nil {
		_ = d.Sync() // not every system can
		_ = d.Close()
	}
	return keys, nil
}

// Load reads a snapshot from a file. Errors: those of Read, and of the file.
func Load(name string) (m *index.Map, at time.Time, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, at, err
	}
	defer f.Close()
	if m, at, err = Read(f); err != nil {
		return nil, at, fmt.Errorf("%s: %w", name, err)
	}
	return m, at, nil
}
