package msgbuf

import "github.com/userspace-rpc/erpc/internal/invariants"

// Wrap returns a buffer whose message is data, len(data) bytes, where it lies: on the Go heap, say.
// Only the headers are memory of the pool, so a large message need not be copied into it to be
// sent. The caller owns the buffer until Free, which leaves data alone, and keeps data as it is
// until then. All else is as of Alloc: MaxSize is len(data). Errors match ErrTooLarge, ErrNoMemory
// or ErrClosed.
//
// In a pool whose memory has keys the buffer is one of Alloc, with a copy of data: transports send
// registered memory as it is, and would have to copy other memory themselves.
func (p *Pool) Wrap(data []byte) (*Buffer, error) {
	if p.cfg.Shared {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	if len(data) > p.max {
		return nil, p.badSize()
	}
	heads, err := p.alloc(laterHeaders(len(data))) // that of packet 0 is its own
	if err != nil {
		return nil, err
	}
	if heads.key == 0 {
		return p.wrap(data, heads), nil
	}
	p.free(heads)
	b, err := p.alloc(len(data))
	if err == nil {
		copy(b.Bytes(), data)
	}
	return b, err
}

// Into is Wrap for a message that is received into data, and so needs no headers: it has none, and
// is never sent. An error matches ErrTooLarge or ErrClosed.
func (p *Pool) Into(data []byte) (*Buffer, error) {
	if p.cfg.Shared {
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	if len(data) > p.max {
		return nil, p.badSize()
	}
	return p.wrap(data, nil), nil
}

// wrap makes a buffer of data and the one with its headers, under the lock.
func (p *Pool) wrap(data []byte, heads *Buffer) *Buffer {
	b := p.wraps
	if b == nil {
		b = new(Buffer)
	} else {
		p.wraps = b.next
	}
	*b = Buffer{mem: data, end: len(data), max: int32(len(data)), owner: OwnerApp, whole: -1,
		region: &p.outside, next: heads}
	if heads == nil {
		p.headless++
	}
	return b
}

// unwrap frees a buffer that wrap has made, under the lock.
func (p *Pool) unwrap(b *Buffer) {
	heads := b.next
	b.retire()
	b.owner = OwnerNone
	if !invariants.Enabled { // there an old pointer never is a new buffer
		b.next, p.wraps = p.wraps, b
	}
	if heads == nil {
		p.headless--
	} else {
		p.free(heads)
	}
}
