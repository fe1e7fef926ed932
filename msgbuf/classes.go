package msgbuf

import (
	"math/bits"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	lineSize   = 64
	largeChunk = 1 << 20 // chunks of this size and more are mapped one by one
	maxClasses = 48
	// lineClasses is the number of classes that are whole cache lines: 1 to 4.
	lineClasses = 4
	// stepBits: from 1<<stepBits bytes of data on there are two classes per doubling.
	stepBits = 8
)

// class is one size of buffers. Chunks are cut for the data sizes that programs
// use, powers of two, plus their headers, so such a message wastes little; and their
// odd lengths spread neighbouring headers over the sets of the cache.
type class struct {
	list  *Buffer // free buffers, last freed first; none in a large class
	data  int32   // bytes of data at most
	chunk int32   // bytes of memory, a multiple of lineSize
	large bool
	inUse int
	free  int
}

// headersAt returns the offset of the second header in a chunk for n bytes of data.
func headersAt(n int) int { return (wire.HeaderSize + n + 7) &^ 7 }

// chunkNeed returns the bytes of memory that n bytes of data and their headers take.
func chunkNeed(n int) int {
	later := 0
	if n > MinDataPerPacket {
		later = (n - 1) / MinDataPerPacket
	}
	return headersAt(n) + later*wire.HeaderSize
}

// newClass returns the class for messages of target bytes: whole lines or pages,
// with the rest of the last one given to the data.
func newClass(target, maxMessage int) class {
	target = min(target, maxMessage)
	unit := lineSize
	large := chunkNeed(target) >= largeChunk
	if large {
		unit = hugemem.PageSize
	}
	chunk := (chunkNeed(target) + unit - 1) / unit * unit
	data := target + chunk - chunkNeed(target)
	for chunkNeed(data) > chunk {
		data--
	}
	return class{data: int32(min(data, maxMessage)), chunk: int32(chunk), large: large}
}

// makeClasses fills in the classes up to maxMessage and returns how many.
func makeClasses(all *[maxClasses]class, maxMessage int) int {
	n := 0
	add := func(target int) bool { // false: that was the last
		all[n] = newClass(target, maxMessage)
		n++
		return int(all[n-1].data) < maxMessage
	}
	for i := 1; i <= lineClasses; i++ {
		if !add(i*lineSize - wire.HeaderSize) {
			return n
		}
	}
	for size := 1 << stepBits; add(size) && add(size+size/2); size *= 2 {
	}
	return n
}

// classOf returns the index of the smallest class for n bytes of data, which the
// caller has compared with the largest size.
func (p *Pool) classOf(n int) uint {
	if n <= lineClasses*lineSize-wire.HeaderSize {
		return min(uint(n+wire.HeaderSize-1)/lineSize, p.last)
	}
	i := uint(lineClasses)
	if n > 1<<stepBits {
		k := uint(bits.Len32(uint32(n - 1))) // 1<<(k-1) < n <= 1<<k
		i += 2 * (k - stepBits)
		if n <= 3<<(k-2) {
			i--
		}
	}
	i = min(i, p.last)
	// The class below may have grown beyond its target.
	if n <= int(p.classes[(i-1)%maxClasses].data) {
		i--
	}
	return i
}
