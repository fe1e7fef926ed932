package hugemem

import (
	"errors"
	"fmt"
)

const (
	// PageSize is the alignment in bytes that all memory has, and the unit in
	// which it is handed out. The system's own pages may be larger.
	PageSize = 4096
	// HugeSize is the size of the hugepages that Alloc uses, in bytes.
	HugeSize = 2 << 20

	// maxSize guards the rounding up against overflow.
	maxSize = 1 << (30 + 16*(^uint(0)>>63))
)

// ErrSize means that a size was not positive, or absurd.
var ErrSize = errors.New("hugemem: size out of range")

// Alloc returns zeroed memory of size bytes, rounded up to whole pages; len(mem)
// says how many. If size is a multiple of HugeSize and as many hugepages are free,
// the memory consists of them and huge is true; they are then all committed, so
// that touching them later cannot fail. The caller owns mem until Free.
func Alloc(size int) (mem []byte, huge bool, err error) {
	if size, err = roundUp(size); err != nil {
		return nil, false, err
	}
	if size%HugeSize == 0 {
		if mem = mapHuge(size); mem != nil {
			return mem, true, nil
		}
	}
	mem, err = mapPlain(size)
	return mem, false, err
}

// AllocPlain is Alloc that leaves hugepages alone.
func AllocPlain(size int) (mem []byte, err error) {
	if size, err = roundUp(size); err != nil {
		return nil, err
	}
	return mapPlain(size)
}

// Grow makes mem, exactly as AllocPlain gave it, larger: size bytes, rounded up to whole pages. It
// may move, and no byte is copied; any later access through an old slice faults. It reports false
// where the system cannot, and nothing happens then.
func Grow(mem []byte, size int) (bigger []byte, ok bool) {
	size, err := roundUp(size)
	if err != nil || size < len(mem) {
		return mem, false
	}
	return grow(mem, size)
}

// Free returns mem, exactly as Alloc or AllocPlain gave it, to the system. Any
// later access through an old slice faults. An error means that mem was not such
// memory, or was freed before; nothing happens then.
func Free(mem []byte) error {
	if err := unmap(mem); err != nil {
		return fmt.Errorf("hugemem: free of %d bytes: %w", len(mem), err)
	}
	return nil
}

// Advise asks the system to back mem with transparent hugepages where it can.
// It is a hint: there is nothing to handle when it has no effect.
func Advise(mem []byte) { advise(mem) }

// Available reports the system's pool of explicit hugepages of its default size:
// how many are free and how many exist, in pages, and the size of one in bytes.
// All are zero where the system has none or does not tell.
func Available() (free, total, size int) { return available() }

func roundUp(size int) (int, error) {
	if size <= 0 || size > maxSize {
		return 0, ErrSize
	}
	return (size + PageSize - 1) &^ (PageSize - 1), nil
}
