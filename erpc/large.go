package erpc

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/sys"
)

const (
	// minInPlace is the least size of a message that is sent from the memory of who has it, and
	// the least room of a caller in which a response is received.
	minInPlace = 4 << 10
	// largeMessage is the least size of a response that a Call's goroutine copies if it was received
	// elsewhere: while the loop copies some MiB, the calls of all others wait.
	largeMessage = 64 << 10
	// maxAhead bounds the bytes of requests that were written in place and not sent. Beyond it they
	// are written elsewhere.
	maxAhead = 64 << 20
	// copyAlone is how many bytes are copied before others have the processor, one or two hundred
	// microseconds, and copyPiece how many in one go after that, some tens. All other goroutines
	// have their turn after each piece, so a message of many pieces is as slow as they are many.
	copyAlone = 1 << 20
	copyPiece = 128 << 10
)

// CopyLarge is copy for messages of some MiB: after the first of them, and each 128 KiB from there,
// it lets other goroutines, and other threads of the machine, have the processor. Copying all in
// one go would take it from event loops for a whole time slice of some milliseconds, and the calls
// of all others would wait.
func CopyLarge(dst, src []byte) (n int) {
	for n < len(src) && n < len(dst) {
		standAside(n)
		n += copy(dst[n:min(n+copyPiece, len(dst))], src[n:])
	}
	return n
}

// CloneLarge is bytes.Clone as CopyLarge is copy.
func CloneLarge(b []byte) []byte { return sys.ClonePieces(b, copyPiece, standAside) }

// standAside lets other goroutines and threads have the processor, when so many bytes were copied.
func standAside(n int) {
	if n >= copyAlone {
		runtime.Gosched()
		sys.Yield()
	}
}

// InPlace writes the request of a call where it is sent from, and reads the response where it came.
type InPlace interface {
	// WriteRequest writes the whole request into b. An error ends the call before it was sent. It
	// may be called twice, if there is no more memory after the first time.
	WriteRequest(b []byte) error
	// ReadResponse reads the response, and keeps no part of it. Its error is that of the call.
	ReadResponse(b []byte) error
}

// CallInPlace is Call for a request of size bytes that m writes, and a response that m reads, for
// messages that the program has in another form. Those of 64 KiB and more lie in the memory of the
// Loop then, and nothing is copied beside that. The methods of m run in the caller's goroutine, one
// after the other; they must not close the Client or its Loop, which wait for them.
func (c *Client) CallInPlace(ctx context.Context, reqType uint8, size int, m InPlace) error {
	k, err := c.newCall(ctx, reqType)
	if err != nil {
		return err
	}
	k.place, k.size, k.req, k.resp = m, size, nil, k.spare[1][:0]
	if size >= largeMessage {
		k.msg, err = c.loop.writeIn(size, m.WriteRequest)
	}
	if k.msg == nil && err == nil {
		k.req = slices.Grow(k.spare[0][:0], max(size, 1))[:size]
		if err = m.WriteRequest(k.req); size < largeMessage {
			k.spare[0] = k.req
		}
	}
	if err != nil {
		k.recycle()
		return err
	}
	reusable, err := k.run(ctx)
	if err != nil {
		return err
	}
	large := k.large != nil
	if k.fetch(); k.err == nil && !large {
		k.err, k.spare[1] = m.ReadResponse(k.resp), k.resp
	}
	err = k.err
	if reusable {
		k.recycle()
	}
	return err
}

// copies lets goroutines write and read in the memory of a Loop, which is gone when the loop ends.
type copies struct {
	mu    sync.RWMutex
	gone  bool         // the memory; under mu
	ahead atomic.Int64 // bytes of requests that were written and not sent

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

// request returns the request in a buffer, in the loop.
func (k *goCall) request(r *Rpc) (b *MsgBuffer, err error) {
	b = k.takeMsg()
	switch {
	case b != nil:
		return b, nil
	case k.req == nil && k.size > 0: // the loop is ending
		return nil, ErrClosed
	case k.size >= minInPlace:
		b, err = r.pool.Wrap(k.req)
	default:
		if b, err = r.pool.Alloc(k.size); err == nil {
			copy(b.Data(), k.req)
		}
	}
	return b, allocError(err)
}

// makeRoom has the response be received in the caller's memory, if that has room worth it. A
// response that is larger comes elsewhere.
func (k *goCall) makeRoom(r *Rpc) {
	room := k.resp[len(k.resp):cap(k.resp)]
	if len(room) >= minInPlace && !sys.Overlap(room, k.req) { // it may have to be sent again
		k.into, _ = r.pool.Into(room[:min(len(room), r.cfg.MaxMessage)])
	}
}

// leaveRoom undoes makeRoom.
func (k *goCall) leaveRoom() {
	if k.into != nil {
		k.into.Free()
		k.into = nil
	}
}

// writeIn returns message memory of n bytes that write has filled, nil if there is none. The error
// is that of write.
func (l *Loop) writeIn(n int, write func([]byte) error) (*MsgBuffer, error) {
	c := &l.copies
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.gone {
		return nil, nil
	}
	if c.ahead.Add(int64(n)) > maxAhead {
		c.ahead.Add(int64(-n))
		return nil, nil
	}
	buf, err := l.rpc.allocShared(n)
	if err != nil {
		c.ahead.Add(int64(-n))
		return nil, nil
	}
	written := false
	defer func() {
		if !written { // an error, or a panic
			c.ahead.Add(int64(-n))
			buf.Free()
		}
	}()
	if err := write(buf.Data()); err != nil {
		return nil, err
	}
	written = true
	c.hold(buf)
	return buf, nil
}

// keep takes back the request of a call that may be sent again, in the loop.
func (k *goCall) keep(msg *MsgBuffer) {
	c := &k.client.loop.copies
	c.ahead.Add(int64(k.size))
	c.hold(msg)
	k.msg = msg
}

// takeMsg returns the request that the caller wrote in place, nil if there is none, in the loop.
func (k *goCall) takeMsg() *MsgBuffer {
	msg := k.msg
	if msg == nil {
		return nil
	}
	k.msg = nil
	c := &k.client.loop.copies
	c.ahead.Add(-int64(k.size))
	if !c.take(msg) {
		return nil
	}
	return msg
}

// fetch takes a large response, in the goroutine of its call.
func (k *goCall) fetch() {
	large := k.large
	if large == nil {
		return
	}
	k.large = nil
	c := &k.client.loop.copies
	defer func() {
		_ = k.client.rpc.Post(func(*Rpc) { // in vain only if the loop has ended, which frees it
			if c.take(large) {
				large.Free()
			}
		})
	}()
	k.read(large)
}

// read takes a response out of the loop's memory.
func (k *goCall) read(large *MsgBuffer) {
	c := &k.client.loop.copies
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.gone:
		k.err = ErrClosed
	case k.place != nil:
		k.err = k.place.ReadResponse(large.Data())
	default:
		k.resp = append(k.resp, large.Data()...)
	}
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
