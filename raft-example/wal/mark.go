package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
)

// A mark says up to where the log was synced when it was last written:
//
//	0 the checksum of the log's first record u32 · 4 zero u32 · 8 end u64 · 16 CRC-32C u32 ·
//	20 zero u32
//
// It is written in place after each sync and not synced itself. So it survives the end of the
// process, and after a power failure it is at most too early, or of an older log: then it says
// nothing.
const markSize = 24

// firstSum is the checksum of the first record of a log, which tells it from other logs of the
// same replica; 0 if it has none.
func firstSum(log []byte) uint32 {
	if len(log) < headerSize+frameSize {
		return 0
	}
	return binary.LittleEndian.Uint32(log[headerSize+8:])
}

func appendMark(b []byte, first uint32, end int64) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, first)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(end))
	return binary.LittleEndian.AppendUint64(b, uint64(crc32.Checksum(b[at:], castagnoli)))
}

// marked returns of which log a mark speaks, and how many bytes of that were synced; ok is false if
// the mark is none.
func marked(mark []byte) (first uint32, end int64, ok bool) {
	if len(mark) != markSize ||
		uint64(crc32.Checksum(mark[:16], castagnoli)) != binary.LittleEndian.Uint64(mark[16:]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(mark), int64(binary.LittleEndian.Uint64(mark[8:])), true
}

// checkMark compares what is good of the log with what was synced. A log without a good record has
// lost what the mark speaks of: a new one has no mark, and any other begins with a record.
func (d *Dir) checkMark(log []byte, s *State) error {
	mark, err := os.ReadFile(d.name(markName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	first, end, ok := marked(mark)
	if !ok || s.Good >= end || s.Good > headerSize && firstSum(log) != first {
		return nil
	}
	return fmt.Errorf("%w: bad at byte %d, and %d bytes were synced", ErrCorrupt, s.Good, end)
}

// mark notes that all until d.end is synced.
func (d *Dir) mark() error {
	d.markBuf = appendMark(d.markBuf[:0], d.first, d.end.Load())
	_, err := d.markFile.WriteAt(d.markBuf, 0)
	return err
}

func (d *Dir) openMark() (err error) {
	if d.markFile == nil {
		d.markFile, err = d.disk.open(d.name(markName), os.O_RDWR|os.O_CREATE)
	}
	return err
}
