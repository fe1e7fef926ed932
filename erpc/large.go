package erpc

import (
	"sync"
	"sync/atomic"
)

const (
	// largeMessage is the least size of a message that a Call's goroutine copies: while the loop
	// copies some MiB, the calls of all others wait.
	largeMessage = 64 << 10
	// mostAhead bounds the bytes of requests that were copied and not sent. Beyond it the loop
	// copies them when it sends them.
	mostAhead = 64 << 20
)

// copies lets goroutines copy from and to the memory of a Loop, which is gone when the loop ends.
type copies struct {
	mu    sync.RWMutex
	gone  bool         // the memory; under mu
	ahead atomic.Int64 // bytes of requests that were copied and not sent

	out  sync.Mutex
	held map[*MsgBuffer]struct{} // those that calls hold; under out
}

// hold notes that a call holds a buffer.
func (c *copies) hold(b *MsgBuffer) {
	c.out.Lock()
	defer c.out.Unlock()
	if c.held == nil {
		c.held = make(map[*MsgBuffer]struct{})
	}
	c.held[b] = struct{}{}
}

// take undoes hold. It reports false if the buffer went with the loop.
func (c *copies) take(b *MsgBuffer) bool {
	c.out.Lock()
	defer c.out.Unlock()
	_, there := c.held[b]
	delete(c.held, b)
	return there
}

// copyIn returns a copy of a request in message memory, nil if the loop is to make it.
func (l *Loop) copyIn(b []byte) *MsgBuffer {
	c := &l.copies
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.gone {
		return nil
	}
	n := int64(len(b))
	if c.ahead.Add(n) > mostAhead {
		c.ahead.Add(-n)
		return nil
	}
	buf, err := l.rpc.allocShared(len(b))
	if err != nil {
		c.ahead.Add(-n)
		return nil
	}
	copy(buf.Data(), b)
	c.hold(buf)
	return buf
}

// takeCopy returns the copy that copyIn made for a call, nil if there is none, in the loop.
func (k *goCall) takeCopy() *MsgBuffer {
	msg := k.msg
	if msg == nil {
		return nil
	}
	k.msg = nil
	c := &k.client.loop.copies
	c.ahead.Add(-int64(len(k.req)))
	if !c.take(msg) {
		return nil
	}
	return msg
}

// fetch copies a large response, in the goroutine of its call.
func (k *goCall) fetch() {
	large := k.large
	if large == nil {
		return
	}
	k.large = nil
	c := &k.client.loop.copies
	c.mu.RLock()
	if c.gone {
		k.err = ErrClosed
	} else {
		k.resp = append(k.resp, large.Data()...)
	}
	c.mu.RUnlock()
	_ = k.client.rpc.Post(func(*Rpc) { // in vain only if the loop has ended, which frees it
		if c.take(large) {
			large.Free()
		}
	})
}

// end waits for copies that are being made, and frees what calls hold. No more copies begin.
func (c *copies) end() {
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.out.Lock()
	defer c.out.Unlock()
	for b := range c.held {
		b.Free()
	}
	clear(c.held)
}
