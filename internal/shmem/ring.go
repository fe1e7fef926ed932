package shmem

import (
	"sync/atomic"
	"unsafe"

	"github.com/userspace-rpc/erpc/internal/sys"
)

// Sizes in bytes.
const (
	// CellSize is a cache line of amd64 and of most arm64.
	CellSize = 64
	// HeaderSize is the room of a packet in the ring besides its bytes.
	HeaderSize = 8
	// CopyMax is the largest packet that Next copies into private memory.
	CopyMax = 256
	// Block is how many cells have one order, see the package comment.
	Block = 32
	// oneCell is the largest packet that takes one cell.
	oneCell = CellSize - HeaderSize
)

// Parts of a header word.
const (
	kindPacket = 1 << 30 // packet bytes follow
	kindPad    = 2 << 30 // go on so many cells further, at the start of a block
	kindMask   = 3 << 30
	lengthMask = 1<<30 - 1
	posShift   = 32
)

// The order of single cells in a block.
const (
	block     = Block
	blockMask = block - 1
	// scatter is the step from one single cell to the next, modulo block. It alternates
	// between +19 and -13, which no prefetcher takes for a direction.
	scatter = 19
	inOrder = 1
)

// place returns the cell of a position: step is scatter or inOrder.
func place(pos, step uint64) uint64 { return pos&^blockMask | pos*step&blockMask }

// Cells returns how many cells a packet of so many bytes takes.
func Cells(length int) int { return (length + HeaderSize + CellSize - 1) / CellSize }

// Producer is the writing side of a ring. One goroutine at a time uses it.
type Producer struct {
	cells unsafe.Pointer // the first cell
	mask  uint64         // number of cells - 1
	limit int            // largest packet in bytes
	tail  uint64         // position of the next packet
	// what consumed said when last read, the start of that block; never ahead of tail
	head   uint64
	step   uint64  // order of the cells of this block
	first  uint64  // header word held back until Publish, 0 if there is none
	start  uint64  // its position
	at     *uint64 // its place
	peer   *uint64 // shared; the reader's consumed position
	broken bool
	fence  bool // Publish is a full barrier
}

// SetFence says whether Publish is a full barrier. It need not be one, and is much faster
// for it, if CanBarrier is true in the processes of both sides.
func (p *Producer) SetFence(full bool) { p.fence = full }

// NoProducer returns a Producer without a ring, which takes nothing.
func NoProducer() Producer { return Producer{broken: true} }

// Put writes the packet head+data behind those not published yet. It returns false
// when there is no room now, when the packet is larger than the ring's limit or when
// the ring is dead.
func (p *Producer) Put(head, data []byte) bool {
	length := len(head) + len(data)
	if length > oneCell {
		return p.putCells(head, data)
	}
	// One more cell for the 0 behind the packet.
	if p.broken || p.tail+2-p.head > p.mask+1 && !p.room(2) {
		return false
	}
	if p.tail&blockMask == 0 {
		p.step = scatter
	}
	word := p.word()
	to := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(word), HeaderSize)), oneCell)
	copy(to, head)
	if len(data) > 0 {
		copy(to[len(head):], data)
	}
	p.header(word, kindPacket|uint64(length))
	p.tail++
	return true
}

// putCells is Put for packets of more than one cell. Their cells are in order, and so are
// all of a block that has one.
func (p *Producer) putCells(head, data []byte) bool {
	length := len(head) + len(data)
	if uint(length) > uint(p.limit) || p.broken {
		return false
	}
	cells := uint64(Cells(length))
	pad := uint64(0)
	if p.step == scatter {
		pad = -p.tail & blockMask
	}
	if at := (p.tail + pad) & p.mask; at+cells > p.mask+1 {
		pad += p.mask + 1 - at
	}
	if p.tail+pad+cells+1-p.head > p.mask+1 && !p.room(pad+cells+1) {
		return false
	}
	if pad != 0 {
		p.header(p.word(), kindPad|pad)
		p.tail += pad
	}
	p.step = inOrder
	word := p.word()
	to := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(word), HeaderSize)), length)
	copy(to, head)
	copy(to[len(head):], data)
	p.header(word, kindPacket|uint64(length))
	p.tail += cells
	return true
}

// header writes the header word of the tail to its place, or keeps it if it is the first
// since Publish.
func (p *Producer) header(place *uint64, word uint64) {
	word |= p.tail << posShift
	if p.first == 0 {
		p.first, p.start, p.at = word, p.tail, place
		return
	}
	*place = word
}

// word returns the place of the tail's header word.
func (p *Producer) word() *uint64 {
	return (*uint64)(unsafe.Add(p.cells, place(p.tail&p.mask, p.step)*CellSize))
}

// room reads how far the reader has come and reports whether so many cells are free.
func (p *Producer) room(cells uint64) bool {
	head := atomic.LoadUint64(p.peer)
	// Cells that are not published yet cannot have been consumed.
	end := p.tail
	if p.first != 0 {
		end = p.start
	}
	if head-p.head > end-p.head {
		p.broken = true
		return false
	}
	// A block may have another order this round: it must be free as a whole.
	p.head = head &^ blockMask
	return p.tail+cells-p.head <= p.mask+1
}

// Unpublished returns how many cells were put and not published.
func (p *Producer) Unpublished() int {
	if p.first == 0 {
		return 0
	}
	return int(p.tail - p.start)
}

// Publish makes the reader see all packets that were put, with one store. A sender that
// looks at a [Bell] afterwards must see what was there after that store: either the
// sleeper sees to it, or the store is a full barrier, see SetFence.
func (p *Producer) Publish() {
	if p.first == 0 {
		return
	}
	*p.word() = 0 // what the reader meets behind the last packet
	if p.fence {
		atomic.StoreUint64(p.at, p.first)
	} else {
		sys.StoreRelease(p.at, p.first)
	}
	p.first = 0
}

// Progress returns the reader's position as last seen, the start of its block; it grows when the
// reader frees cells.
func (p *Producer) Progress() uint64 { return p.head }

// Limit returns the largest packet in bytes.
func (p *Producer) Limit() int { return p.limit }

// Broken reports whether the reader wrote nonsense.
func (p *Producer) Broken() bool { return p.broken }

// Consumer is the reading side of a ring. One goroutine at a time uses it.
type Consumer struct {
	cells  unsafe.Pointer // the first cell
	mask   uint64         // number of cells - 1
	limit  uint64         // largest packet in bytes
	head   uint64         // position of the next packet
	freed  uint64         // what own says
	step   uint64         // order of the cells of this block
	lag    uint64         // how many cells are freed at once
	own    *uint64        // shared; our consumed position
	broken bool
}

// Ready reports whether Next has something to do: a packet, a pad or nonsense.
func (c *Consumer) Ready() bool { return !c.broken && atomic.LoadUint64(c.word()) != 0 }

func (c *Consumer) word() *uint64 {
	return (*uint64)(unsafe.Add(c.cells, place(c.head&c.mask, c.step)*CellSize))
}

// Free gives the cells of all packets that Next returned back to the writer, in
// eighths of the ring. The packets must not be used any more.
func (c *Consumer) Free() {
	if c.head-c.freed >= c.lag {
		c.freed = c.head
		sys.StoreRelease(c.own, c.freed)
	}
}

// Next returns the next packet. It is valid until Free, and copied into private
// memory if it has at most CopyMax bytes; until Reset of that memory then. ok is
// false when there is none, or the ring is dead.
func (c *Consumer) Next(private *Arena) (packet []byte, ok bool) {
	for !c.broken {
		cell := unsafe.Pointer(c.word())
		word := atomic.LoadUint64((*uint64)(cell)) // once: the other side may change it
		if word == 0 {
			return nil, false
		}
		length := word & lengthMask
		if word&^lengthMask != c.head<<posShift|kindPacket {
			c.skip(word)
			continue
		}
		if length <= oneCell {
			// The next cell's place is not computed from this word: so the
			// processor fetches the lines of a burst at the same time.
			if c.head&blockMask == 0 {
				c.step = scatter
			}
			c.head++
			return private.copyCell(unsafe.Add(cell, HeaderSize), length), true
		}
		cells := (length + HeaderSize + CellSize - 1) / CellSize
		// An honest writer may write here all that passes.
		if length > c.limit || c.head&c.mask+cells > c.mask+1 || c.head+cells+1-c.freed > c.mask+1 ||
			c.step == scatter && c.head&blockMask != 0 {
			c.broken = true
			break
		}
		c.step = inOrder
		c.head += cells
		from := unsafe.Add(cell, HeaderSize)
		if length > CopyMax {
			return unsafe.Slice((*byte)(from), length), true
		}
		return private.copy(from, length), true
	}
	return nil, false
}

// skip goes on at the start of another block if word is a right pad, else the ring is dead.
func (c *Consumer) skip(word uint64) {
	pad := word & lengthMask
	end := c.head&c.mask + pad
	if word&^lengthMask != c.head<<posShift|kindPad || pad == 0 || end&blockMask != 0 ||
		end > c.mask+1 ||
		c.head+pad+1-c.freed > c.mask+1 {
		c.broken = true
		return
	}
	c.head += pad
}

// Position returns how many cells were read since the start.
func (c *Consumer) Position() uint64 { return c.head }

// Broken reports whether the writer wrote nonsense.
func (c *Consumer) Broken() bool { return c.broken }

// Arena is private memory for small packets of one burst.
type Arena struct {
	mem  []byte
	used int
}

// NewArena returns memory for so many packets of CopyMax bytes between two Resets.
func NewArena(packets int) Arena { return Arena{mem: make([]byte, packets*CopyMax)} }

// Reset makes the memory of all packets free.
func (a *Arena) Reset() { a.used = 0 }

// copyCell copies a packet of at most one cell. It copies the whole cell: no call, no
// branch on the length.
func (a *Arena) copyCell(from unsafe.Pointer, length uint64) []byte {
	if a.used+CellSize > len(a.mem) {
		return a.extra(from, length)
	}
	to := a.mem[a.used : a.used+CellSize : a.used+CellSize]
	a.used += CellSize
	src, dst := (*[7]uint64)(from), (*[7]uint64)(unsafe.Pointer(unsafe.SliceData(to)))
	x0, x1, x2, x3, x4, x5, x6 := src[0], src[1], src[2], src[3], src[4], src[5], src[6]
	dst[0], dst[1], dst[2], dst[3], dst[4], dst[5], dst[6] = x0, x1, x2, x3, x4, x5, x6
	return to[:length:length]
}

// copy copies a packet of at most CopyMax bytes.
func (a *Arena) copy(from unsafe.Pointer, length uint64) []byte {
	if a.used+CopyMax > len(a.mem) {
		return a.extra(from, length)
	}
	to := a.mem[a.used : a.used+int(length) : a.used+int(length)]
	a.used += int(length+CellSize-1) &^ (CellSize - 1)
	copy(to, unsafe.Slice((*byte)(from), length))
	return to
}

// extra copies a packet that is beyond the number NewArena was given.
func (a *Arena) extra(from unsafe.Pointer, length uint64) []byte {
	return append([]byte{}, unsafe.Slice((*byte)(from), length)...)
}
