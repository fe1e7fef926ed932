package sim

import (
	"math/bits"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport"
)

// maxPacket is the largest packet in bytes, that of UDP over IPv4.
const maxPacket = 65507

// packet is one packet on its way, or in a receive ring.
type packet struct {
	buf     []byte // as long as the packet; its capacity is that of the class
	from    transport.Addr
	src     *node
	dst     *node
	id      uint64 // unique, in order of sending
	stamp   Time   // when it came into the receive ring
	port    uint32 // of the destination
	flow    uint32 // chooses among parallel links
	wire    int32  // bytes on the wire
	hop     uint8  // output queues passed
	ce      bool
	damaged bool
}

// Buffers come in classes of 128, 256, ... 65536 bytes, so that small packets
// do not hold large buffers.
const (
	minClassBits = 7
	numClasses   = 16 - minClassBits + 1
)

func classOf(n int) int {
	if n <= 1<<minClassBits {
		return 0
	}
	return bits.Len(uint(n-1)) - minClassBits
}

// pool owns all packets of a network. A packet is named by its index, so that
// events need no pointers.
type pool struct {
	all  []*packet
	free [numClasses][]uint32
}

// get returns a packet with room for n bytes, all other fields undefined.
func (o *pool) get(n int) (uint32, *packet) {
	c := classOf(n)
	if f := o.free[c]; len(f) > 0 {
		i := f[len(f)-1]
		o.free[c] = f[:len(f)-1]
		p := o.all[i]
		p.buf = p.buf[:n]
		return i, p
	}
	p := &packet{buf: make([]byte, n, 1<<(minClassBits+c))}
	o.all = append(o.all, p)
	return uint32(len(o.all) - 1), p
}

// put takes a packet back. Where invariants are checked it spoils the bytes, so
// that code that still uses them notices.
func (o *pool) put(i uint32) {
	p := o.all[i]
	if invariants.Enabled {
		for j := range p.buf {
			p.buf[j] = 0xDB
		}
	}
	c := classOf(cap(p.buf))
	o.free[c] = append(o.free[c], i)
}
