package herd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Errors of configuration and of frames.
var (
	ErrConfig = errors.New("herd: bad config")
	ErrLength = errors.New("herd: impossible length")
	ErrTorn   = errors.New("herd: wrong checksum")
)

// Limits of a geometry.
const (
	MaxPartitions = 64
	MaxWindow     = 256
	MinSlot       = 64   // bytes
	MaxSlot       = 4096 // bytes
)

// Geometry has the sizes on which server and client agree.
type Geometry struct {
	Partitions int
	Window     int // slots of a client for each partition
	Slot       int // bytes of a slot: the largest frame, either way; a multiple of 64
}

// Check returns ErrConfig if there can be no such geometry.
func (g Geometry) Check() error {
	if g.Partitions < 1 || g.Partitions > MaxPartitions || g.Window < 1 || g.Window > MaxWindow ||
		g.Slot < MinSlot || g.Slot > MaxSlot || g.Slot%MinSlot != 0 {
		return fmt.Errorf("%w: geometry %+v", ErrConfig, g)
	}
	return nil
}

// Slots returns how many slots a client has.
func (g Geometry) Slots() int { return g.Partitions * g.Window }

// Chunk returns the bytes of a client's slots.
func (g Geometry) Chunk() int { return g.Slots() * g.Slot }

// Body returns the bytes of the largest body.
func (g Geometry) Body() int { return g.Slot - tailSize }

// slot returns a slot of a chunk.
func (g Geometry) slot(chunk []byte, i int) []byte {
	return chunk[i*g.Slot : (i+1)*g.Slot : (i+1)*g.Slot]
}

// tailSize is the size of head and mark.
const tailSize = 16

// Mark is the last word of a frame: a sequence number and a try.
type Mark uint64

func markOf(seq uint64, try uint8) Mark { return Mark(seq<<8 | uint64(try)) }

// Seq returns the sequence number.
func (m Mark) Seq() uint64 { return uint64(m) >> 8 }

// head is the word before the mark.
type head uint64

func (h head) sum() uint32  { return uint32(h) }
func (h head) length() int  { return int(h >> 32 & 0xFFFF) }
func (h head) kind() uint8  { return uint8(h >> 48) }
func (h head) spare() uint8 { return uint8(h >> 56) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers a body, its kind, and the sequence number.
func checksum(body []byte, kind uint8, seq uint64) uint32 {
	x := (seq ^ uint64(kind)<<56 ^ uint64(len(body))<<40) * 0x9E3779B97F4A7C15
	return crc32.Update(0, castagnoli, body) ^ uint32(bits.RotateLeft64(x, 17)^x>>32)
}

// frameSize returns the size of a frame with a body of n bytes.
func frameSize(n int) int { return (n+7)&^7 + tailSize }

// seal makes a frame of a body of n bytes that lies at the beginning of b, and returns its size.
func seal(b []byte, n int, kind uint8, m Mark) int {
	end := frameSize(n) - tailSize
	clear(b[n:end])
	h := uint64(checksum(b[:n], kind, m.Seq())) | uint64(n)<<32 | uint64(kind)<<48
	binary.LittleEndian.PutUint64(b[end:], h)
	binary.LittleEndian.PutUint64(b[end+8:], uint64(m))
	return end + tailSize
}

// remark gives a frame another mark, with the same sequence number.
func remark(frame []byte, m Mark) {
	binary.LittleEndian.PutUint64(frame[len(frame)-8:], uint64(m))
}

// loadMark returns the mark of a slot, in which somebody else writes.
func loadMark(slot []byte) Mark { return Mark(onesided.Load(slot, len(slot)-8)) }

// take copies the body of the frame at the end of a slot to buf, and checks the copy. The mark was
// loaded before. Errors: ErrLength, ErrTorn.
func take(slot, buf []byte, m Mark) (body []byte, kind uint8, err error) {
	h := head(onesided.Load(slot, len(slot)-tailSize))
	n := h.length()
	if n > len(slot)-tailSize {
		return nil, 0, ErrLength
	}
	body = buf[:n:n]
	copy(body, slot[len(slot)-frameSize(n):])
	if checksum(body, h.kind(), m.Seq()) != h.sum() || h.spare() != 0 {
		return nil, 0, ErrTorn
	}
	return body, h.kind(), nil
}

// open checks a frame that nobody changes; the body is part of it. Errors: ErrLength, ErrTorn.
func open(frame []byte) (body []byte, kind uint8, m Mark, err error) {
	end := len(frame) - tailSize
	if end < 0 {
		return nil, 0, 0, ErrLength
	}
	h := head(binary.LittleEndian.Uint64(frame[end:]))
	m = Mark(binary.LittleEndian.Uint64(frame[end+8:]))
	n := h.length()
	if frameSize(n) != len(frame) {
		return nil, 0, m, ErrLength
	}
	body = frame[:n:n]
	if checksum(body, h.kind(), m.Seq()) != h.sum() || h.spare() != 0 {
		return nil, 0, m, ErrTorn
	}
	return body, h.kind(), m, nil
}
