package onesided

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Errors of links.
var (
	ErrKey    = errors.New("onesided: the peer has no such region")
	ErrBounds = errors.New("onesided: outside the region")
	ErrAccess = errors.New("onesided: the peer does not grant that access")
	ErrFull   = errors.New("onesided: too many operations under way") // poll first
	ErrClosed = errors.New("onesided: link closed")
	ErrPeer   = errors.New("onesided: the peer has gone")
	ErrSpec   = errors.New("onesided: bad region")
)

// Access says what the peer may do with a region.
type Access uint8

// Rights of the peer; none makes the region private.
const (
	PeerReads  Access = 1 << iota // the peer READs it
	PeerWrites                    // the peer WRITEs it
)

// Limits of what a side declares.
const (
	MaxRegions = 8
	MaxRegion  = 1 << 30 // bytes
)

// Spec describes a region.
type Spec struct {
	Size   int // bytes, a multiple of 8
	Access Access
}

// CheckSpecs returns ErrSpec if these cannot be the regions of one side.
func CheckSpecs(specs []Spec) error {
	if len(specs) > MaxRegions {
		return fmt.Errorf("%w: %d regions, at most %d", ErrSpec, len(specs), MaxRegions)
	}
	for i, s := range specs {
		if s.Size <= 0 || s.Size > MaxRegion || s.Size%8 != 0 || s.Access > PeerReads|PeerWrites {
			return fmt.Errorf("%w: region %d: %d bytes, access %d", ErrSpec, i, s.Size, s.Access)
		}
	}
	return nil
}

// Op is an operation.
type Op struct {
	ID     uint64 // comes back with the completion
	Read   bool   // else a WRITE
	Signal bool   // a WRITE's completion is wanted
	Local  uint8  // own region
	Remote uint8  // the peer's
	At     int    // offset in the own region
	To     int    // ... in the peer's
	Size   int    // bytes, 1 at least
}

// Batch is a list of operations for one doorbell. Its user keeps it: it grows once.
type Batch struct{ Ops []Op }

// Reset empties it.
func (b *Batch) Reset() { b.Ops = b.Ops[:0] }

// Write appends a WRITE.
func (b *Batch) Write(local uint8, at int, remote uint8, to, size int, id uint64, signal bool) {
	b.Ops = append(b.Ops, Op{id, false, signal, local, remote, at, to, size})
}

// Read appends a READ.
func (b *Batch) Read(local uint8, at int, remote uint8, to, size int, id uint64) {
	b.Ops = append(b.Ops, Op{id, true, true, local, remote, at, to, size})
}

// Completion is the end of an operation.
type Completion struct {
	ID  uint64
	Err error // nil: it took place
}

// Link is one side of a connection.
type Link interface {
	// Region returns own memory.
	Region(i int) []byte
	// Peer returns the peer's regions. The caller does not change them.
	Peer() []Spec
	// View returns the peer's region i if this process sees it in place and the peer grants
	// PeerReads, else nil. It must not be written to.
	View(i int) []byte
	// Window returns the peer's region i if this process can store to it in place and the peer grants
	// PeerWrites, else nil. A Copy there is a WRITE that has taken place. Nothing is read from it.
	Window(i int) []byte
	// Post starts all operations of the batch, or none: ErrKey, ErrBounds, ErrAccess, ErrFull, or
	// why the link has ended.
	Post(b *Batch) error
	// Poll fills list with completions and returns how many there are. It is also when a link makes
	// progress.
	Poll(list []Completion) int
	// Err returns nil while the link works, then ErrClosed, ErrPeer or what else ended it.
	Err() error
	// Close ends the link. Views, windows and regions must not be used any more.
	Close() error
}

// Check returns why an operation is not possible between these regions: ErrKey, ErrBounds,
// ErrAccess or nil.
func (o *Op) Check(own, peer []Spec) error {
	if int(o.Local) >= len(own) || int(o.Remote) >= len(peer) {
		return fmt.Errorf("%w: own %d of %d, the peer's %d of %d",
			ErrKey, o.Local, len(own), o.Remote, len(peer))
	}
	l, r := own[o.Local], peer[o.Remote]
	if o.Size <= 0 || o.At < 0 || o.To < 0 || o.At > l.Size-o.Size || o.To > r.Size-o.Size {
		return fmt.Errorf("%w: %d bytes, own region %d at %d of %d, the peer's %d at %d of %d",
			ErrBounds, o.Size, o.Local, o.At, l.Size, o.Remote, o.To, r.Size)
	}
	need := PeerWrites
	if o.Read {
		need = PeerReads
	}
	if r.Access&need == 0 {
		return fmt.Errorf("%w: region %d", ErrAccess, o.Remote)
	}
	return nil
}

// Memory returns private memory for a region: size bytes, aligned to a cache line.
func Memory(size int) []byte {
	mem := make([]byte, size+63)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & 63
	return mem[skip : skip+size : skip+size]
}

// Load reads the aligned word at offset at of a region. A reader that sees its value sees
// everything written before it.
func Load(mem []byte, at int) uint64 { return atomic.LoadUint64(word(mem, at)) }

// Store writes an aligned word. Everything stored before is visible to those that see it, and no
// later load of this side takes place before it.
func Store(mem []byte, at int, v uint64) { atomic.StoreUint64(word(mem, at), v) }

func word(mem []byte, at int) *uint64 {
	p := unsafe.Pointer(&mem[at : at+8][0])
	if uintptr(p)&7 != 0 {
		panic("onesided: word not aligned")
	}
	return (*uint64)(p)
}

// Copy is a WRITE by the processor: the bytes of from, the last word at once and last if it is
// aligned.
func Copy(to, from []byte) {
	n := len(from)
	end := uintptr(unsafe.Pointer(unsafe.SliceData(to))) + uintptr(n)
	if n < 8 || end&7 != 0 {
		copy(to, from)
		return
	}
	copy(to, from[:n-8])
	var last uint64
	copy((*[8]byte)(unsafe.Pointer(&last))[:], from[n-8:])
	atomic.StoreUint64(word(to, n-8), last)
}
