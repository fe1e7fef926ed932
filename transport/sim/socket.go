package sim

import (
	"math/bits"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// DefaultRxBuffer is the receive buffer in bytes that Linux gives a UDP socket which asks for none
// (net.core.rmem_default).
const DefaultRxBuffer = 212_992

// What Linux counts beside a datagram's bytes (include/linux/skbuff.h, SKB_TRUESIZE): headers and
// the information about fragments, in the same memory, and the descriptor.
const (
	skbHeaders = 448
	skbBuffer  = 256
	skbLeast   = 512
)

// trueSize returns the bytes that a datagram of n bytes takes in a socket's receive buffer: a power
// of two that holds it, and a descriptor. One of 1472 bytes takes 2304, a small one 768.
func trueSize(n int) int {
	size := skbLeast
	if n += skbHeaders; n > size {
		size = 1 << bits.Len(uint(n-1))
	}
	return size + skbBuffer
}

// takes reports whether the receive queue has room for one more packet. As in Linux, the packet
// that fills a socket's buffer may be longer than what was left.
func (e *Endpoint) takes() bool {
	return !e.ring.full() && (e.cfg.RxBuffer == 0 || e.queued <= e.cfg.RxBuffer)
}

// enqueue puts a packet into the receive queue now.
func (e *Endpoint) enqueue(i uint32, p *packet) {
	p.stamp = e.net.now
	e.queued += trueSize(len(p.buf))
	e.ring.push(i)
}

// dequeue takes the first packet out of the receive queue.
func (e *Endpoint) dequeue() (uint32, *packet) {
	i := e.ring.pop()
	p := e.net.pool.all[i]
	e.queued -= trueSize(len(p.buf))
	return i, p
}

// Waited implements transport.Transport: the time since the first packet of the last RxBurst came
// into the receive queue, if EndpointConfig.Stamps is set.
func (e *Endpoint) Waited() time.Duration {
	if !e.cfg.Stamps || e.stamp == 0 {
		return 0
	}
	return e.net.Now().Sub(e.stamp)
}

// Queued returns how many packets wait in the receive queue, and the bytes that they take there as
// RxBuffer counts them.
func (e *Endpoint) Queued() (packets, bytes int) { return e.ring.length, e.queued }

var _ transport.Transport = (*Endpoint)(nil)
