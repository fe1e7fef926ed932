package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The errors of a folder.
var (
	ErrDamaged = errors.New("durable: the folder of an index is damaged")
	ErrForeign = errors.New("durable: not the folder of this index")
	ErrVersion = errors.New("durable: a newer program has written the folder")
	ErrInUse   = errors.New("durable: the folder is in use")
)

const (
	fileMagic  = 0x6474786943505265 // "eRPCixtd"
	frameMagic = 0x46584972         // "rIXF"
	version    = 1
	headSize   = 48 // of a file
	frameSize  = 32 // of a frame without its payload
	last       = 1  // the flag
)

// errRecord is the error of a payload that has a checksum and no sense.
var errRecord = fmt.Errorf("%w: a record makes no sense", ErrDamaged)

// What a file is.
const (
	logFile  = 1
	baseFile = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity says what a file is and whose.
type identity struct {
	kind  uint32 // of values
	index uint64 // random
	n     uint64
	role  uint32
}

func (id identity) name() string {
	if id.role == logFile {
		return fmt.Sprint(logPrefix, id.n)
	}
	return fmt.Sprint(basePrefix, id.n)
}

func (id identity) head() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, headSize), fileMagic)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, id.kind)
	b = binary.LittleEndian.AppendUint64(b, id.index)
	b = binary.LittleEndian.AppendUint64(b, id.n)
	b = binary.LittleEndian.AppendUint64(b, uint64(id.role))
	return binary.LittleEndian.AppendUint64(b, uint64(crc32.Checksum(b, castagnoli)))
}

// parseHead reads a header. A newer version may have another form behind its version.
func parseHead(b []byte) (id identity, err error) {
	switch {
	case len(b) < headSize:
		return id, fmt.Errorf("%w: it has %d bytes", ErrDamaged, len(b))
	case binary.LittleEndian.Uint64(b) != fileMagic:
		return id, fmt.Errorf("%w: it does not begin as a file of an index", ErrDamaged)
	case binary.LittleEndian.Uint32(b[8:]) > version:
		return id, fmt.Errorf("%w: its version is %d, and this program knows %d: start the program "+
			"that wrote it, or a newer one", ErrVersion, binary.LittleEndian.Uint32(b[8:]), version)
	case uint64(crc32.Checksum(b[:40], castagnoli)) != binary.LittleEndian.Uint64(b[40:]):
		return id, fmt.Errorf("%w: its header", ErrDamaged)
	}
	return identity{binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint64(b[16:]),
		binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint32(b[32:])}, nil
}

// padded is the size of a payload in a file.
func padded(n int64) int64 { return (n + 7) &^ 7 }

// seal makes a frame of b, which has the payload behind frameSize bytes.
func (id identity) seal(b []byte, at int64, flags uint32, synced int64) []byte {
	binary.LittleEndian.PutUint32(b, frameMagic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-frameSize))
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[frameSize:], castagnoli))
	binary.LittleEndian.PutUint32(b[12:], flags)
	binary.LittleEndian.PutUint64(b[16:], uint64(synced))
	binary.LittleEndian.PutUint64(b[24:], uint64(id.sum(b, at)))
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// sum is the checksum of a frame's first bytes at a place of the file.
func (id identity) sum(b []byte, at int64) uint32 {
	var salt [32]byte
	binary.LittleEndian.PutUint64(salt[:], id.index)
	binary.LittleEndian.PutUint64(salt[8:], id.n)
	binary.LittleEndian.PutUint64(salt[16:], uint64(id.role))
	binary.LittleEndian.PutUint64(salt[24:], uint64(at))
	return crc32.Update(crc32.Checksum(salt[:], castagnoli), castagnoli, b[:24])
}

// frameHead holds the fields of the first bytes of a frame.
type frameHead struct {
	size   int64 // of the payload
	sum    uint32
	last   bool
	synced int64
}

// frameHead reads the beginning of a frame at a place of the file; ok says whether it is one.
func (id identity) frameHead(b []byte, at int64) (h frameHead, ok bool) {
	if binary.LittleEndian.Uint32(b) != frameMagic ||
		binary.LittleEndian.Uint64(b[24:]) != uint64(id.sum(b, at)) {
		return h, false
	}
	return frameHead{int64(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint32(b[8:]),
		binary.LittleEndian.Uint32(b[12:])&last != 0, int64(binary.LittleEndian.Uint64(b[16:]))}, true
}

// whole reports whether b is the payload of a frame, and zeros up to a multiple of 8.
func (h frameHead) whole(b []byte) bool {
	for _, fill := range b[h.size:] {
		if fill != 0 {
			return false
		}
	}
	return crc32.Checksum(b[:h.size], castagnoli) == h.sum
}
