package msgbuf

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/wire"
)

// MinDataPerPacket is the smallest number of data bytes per packet for which every
// buffer has header room. Sessions with an MTU of 1024 bytes or more keep to it.
const MinDataPerPacket = 1000

// Owner says who may use a buffer now.
type Owner uint8

// The owners.
const (
	OwnerNone    Owner = iota // nobody: the buffer was freed
	OwnerApp                  // the application
	OwnerLibrary              // the library, from Lend to Return
)

// String returns the owner's name.
func (o Owner) String() string {
	if o <= OwnerLibrary {
		return [...]string{"none (freed)", "application", "library"}[o]
	}
	return "invalid"
}

// Buffer is a message buffer, laid out as the package comment shows. It comes from
// [Pool.Alloc] or [Pool.Wrap] and is used by one goroutine at a time. The struct fills one cache
// line.
type Buffer struct {
	// The chunk: header 0, data, later headers; nil when it was unmapped. Of one that Wrap made it is
	// the data alone.
	mem    []byte
	end    int    // offset of the end of the data
	max    int32  // bytes of data at most
	hdrs   int32  // offset of the header of packet 1, less the size of one
	key    uint32 // registration key of the region
	class  uint8  // index in the pool's classes
	owner  Owner
	data   uint8 // offset of the data: wire.HeaderSize, or 0 of one that Wrap made
	whole  int8  // the packet whose header stands right before its data: 0, or -1 if none does
	region *region
	next   *Buffer // what has the later headers; of a free one, the next in the list of its class
}

// Data returns the message, Size bytes. The slice is valid while the application
// owns the buffer and until the next Resize. For the application.
func (b *Buffer) Data() []byte {
	if invariants.Enabled && b.owner != OwnerApp {
		b.misused("Data")
	}
	return b.mem[b.data:b.end:b.end]
}

// Prefetch asks for the first bytes of the buffer's memory to be brought into the cache.
func (b *Buffer) Prefetch() {
	if len(b.mem) > 0 {
		sys.Prefetch(&b.mem[0], 64)
	}
}

// Size returns the size of the message in bytes.
func (b *Buffer) Size() int { return b.end - int(b.data) }

// MaxSize returns the largest size in bytes that Resize and SetSize take.
func (b *Buffer) MaxSize() int { return int(b.max) }

// Footprint returns the bytes of memory that the buffer takes, headers included; of one that Wrap
// made, those of its message.
func (b *Buffer) Footprint() int { return len(b.mem) }

// Owner returns who owns the buffer now.
func (b *Buffer) Owner() Owner { return b.owner }

// Key returns the registration key of the buffer's memory, or 0 in a pool that
// registers nothing.
func (b *Buffer) Key() uint32 { return b.key }

// Resize sets the size of the message to n bytes. It moves nothing: the first bytes
// stay, bytes beyond the old size are undefined. It fails with ErrTooLarge if n is
// negative or above MaxSize, with ErrInUse or ErrFreed if the application does not
// own the buffer, and then changes nothing. For the application.
func (b *Buffer) Resize(n int) error {
	if b.owner != OwnerApp {
		return b.refused()
	}
	if uint(n) > uint(b.max) {
		return ErrTooLarge
	}
	b.end = int(b.data) + n
	return nil
}

// SetSize is Resize for the library, which has checked n: a value out of range is
// moved to the next one in range (and panics in invariant builds).
func (b *Buffer) SetSize(n int) {
	if uint(n) > uint(b.max) {
		n = b.clamp(n)
	}
	b.end = int(b.data) + n
}

// Bytes is Data for the library: it looks at no owner.
func (b *Buffer) Bytes() []byte {
	return b.mem[b.data:b.end:b.end]
}

// Wrapped reports whether the message lies in memory that Wrap was given.
func (b *Buffer) Wrapped() bool { return b.data == 0 }

// Lend passes the buffer from the application to the library. It fails with ErrInUse
// if the library has it and with ErrFreed if nobody has, and changes nothing then.
// For the library, on entry of a call that takes the buffer.
func (b *Buffer) Lend() error {
	if b.owner != OwnerApp {
		return b.refused()
	}
	b.owner = OwnerLibrary
	return nil
}

// Return passes the buffer from the library back to the application. No transmit
// queue may refer to it any more. A buffer that is not lent stays as it is (and
// panics in invariant builds). For the library.
func (b *Buffer) Return() {
	if b.owner != OwnerLibrary {
		b.misused("Return")
		return
	}
	b.owner = OwnerApp
}

// Packets returns the number of packets of the message with perPacket > 0 bytes of
// data in each but the last; an empty message takes one packet.
func (b *Buffer) Packets(perPacket int) int {
	size := b.Size()
	if size <= perPacket {
		return 1
	}
	// Sizes have 28 bits, and a 32-bit division is the faster one.
	return int((uint32(size) + uint32(perPacket) - 1) / uint32(perPacket))
}

// Packet returns the memory of packet i, 0 <= i < Packets(perPacket). For packet 0,
// head is the header and the data behind it, and data is nil; for later ones, and for all of a
// buffer that Wrap made, head is the place of the header only. The slices are valid as long as the
// buffer is lent and keeps its size. With more than one packet, perPacket must be at least
// MinDataPerPacket; it panics when there is no header room. For the library.
func (b *Buffer) Packet(i, perPacket int) (head, data []byte) {
	if i != int(b.whole) {
		return b.later(i, perPacket)
	}
	return b.mem[:min(b.end, wire.HeaderSize+perPacket)], nil
}

// later is Packet for two pieces. Its slices leave out their capacities: one more limit
// and Packet would no longer be inlined. Slicing checks the bounds: a wrong i or
// perPacket panics here and never reaches the memory of another buffer.
func (b *Buffer) later(i, perPacket int) (head, data []byte) {
	h := int(b.hdrs) + i*wire.HeaderSize
	from := int(b.data) + i*perPacket
	to := min(from+perPacket, b.end)
	return b.next.mem[h : h+wire.HeaderSize], b.mem[from:to]
}

// Free gives the buffer back to its pool. The application must own it; freeing a
// lent or a freed buffer is counted in the pool's Stats and otherwise does nothing
// (and panics in invariant builds). For the application, on the goroutine that uses
// the pool unless the pool is Shared.
func (b *Buffer) Free() {
	p := b.region.pool
	if p.cfg.Shared {
		p.freeShared(b)
		return
	}
	p.free(b)
}

// refused returns the error for a buffer that the application does not own.
func (b *Buffer) refused() error {
	if b.owner == OwnerLibrary {
		return ErrInUse
	}
	return ErrFreed
}

// misused reports a call that the owner of the buffer did not make.
func (b *Buffer) misused(call string) {
	if invariants.Enabled {
		panic("msgbuf: " + call + " of a buffer whose owner is: " + b.owner.String())
	}
	b.region.pool.misuses.Add(1)
}

// clamp is the rare half of SetSize.
func (b *Buffer) clamp(n int) int {
	if invariants.Enabled {
		panic("msgbuf: SetSize out of range")
	}
	b.region.pool.misuses.Add(1)
	return max(0, min(n, int(b.max)))
}

// Errors to compare with errors.Is.
var (
	// ErrTooLarge means that a size is negative or larger than the buffer or pool takes.
	ErrTooLarge = errors.New("msgbuf: message too large")
	// ErrNoMemory means that the pool's Limit is reached or the system gives no more.
	ErrNoMemory = errors.New("msgbuf: out of buffer memory")
	// ErrClosed means that the pool is closed.
	ErrClosed = errors.New("msgbuf: pool closed")
	// ErrInUse means that the library owns the buffer.
	ErrInUse = errors.New("msgbuf: buffer is in use by the library")
	// ErrFreed means that the buffer was freed.
	ErrFreed = errors.New("msgbuf: buffer was freed")
	// ErrLeak means that a closed pool still had buffers in use; see LeakError.
	ErrLeak = errors.New("msgbuf: buffers in use at close")
)

// ConfigError names the field of a Config that cannot be used.
type ConfigError struct {
	Field  string
	Reason string
}

// Error returns field and reason.
func (e *ConfigError) Error() string {
	return "msgbuf: Config." + e.Field + ": " + e.Reason
}

// LeakError matches ErrLeak and says how many buffers were in use.
type LeakError struct{ Count int }

// Error returns the count.
func (e *LeakError) Error() string { return fmt.Sprintf("%v: %d", ErrLeak, e.Count) }

// Is makes errors.Is(err, ErrLeak) true.
func (e *LeakError) Is(target error) bool { return target == ErrLeak }

// poisonByte fills freed buffers in invariant builds.
const poisonByte = 0xDB

// poison overwrites all memory of a buffer that is being freed, so that a late reader
// sees rubbish: headers too, and what a Resize has cut off. Only in invariant builds.
func (b *Buffer) poison() {
	m := b.mem
	m[0] = poisonByte
	for i := 1; i < len(m); i *= 2 { // copy is fast under the race detector too
		copy(m[i:], m[:i])
	}
}

// renew moves the chunk of a free buffer to a new Buffer and leaves the old one
// without memory for ever, so that its old pointers can always be told from
// the new one. Only in invariant builds.
func (b *Buffer) renew() *Buffer {
	fresh := *b
	b.retire()
	return &fresh
}
