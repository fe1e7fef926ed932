package memcached

import (
	"net"
	"time"
)

// roomy is how much memory a connection gets for many small answers, if there is some left.
const roomy = 64 << 10

// output is answers that nobody has sent yet. It has baseOutput bytes, or a buffer of the account:
// of the size roomy if many answers are to be sent together, or one that is large enough for one
// value.
type output struct {
	nc      net.Conn
	holder  *holder
	answers *account
	base    []byte
	buf     []byte // with the answers; its capacity is that of the buffer
	timeout time.Duration
	late    deadline
}

// has reports whether there is room for n bytes.
func (o *output) has(n int) bool { return cap(o.buf)-len(o.buf) >= n }

// makeRoom makes room for n bytes.
func (o *output) makeRoom(n int) error {
	if cap(o.buf) < roomy && len(o.buf)+n <= roomy {
		if b := o.answers.try(roomy, o.holder); b != nil {
			o.replace(append(b[:0], o.buf...))
			return nil
		}
	}
	if err := o.send(); err != nil || o.has(n) {
		return err
	}
	o.shrink()
	b := o.answers.take(n, o.timeout, o.holder)
	if b == nil {
		return errNoMemory
	}
	o.replace(b[:0])
	return nil
}

// replace makes b the buffer.
func (o *output) replace(b []byte) {
	if cap(o.buf) > baseOutput {
		o.answers.give(o.buf)
	}
	o.buf = b
}

// shrink gives a larger buffer back: nothing is in it.
func (o *output) shrink() { o.replace(o.base) }

// piece is how many bytes a client has the timeout to take.
const piece = 64 << 10

// send writes all answers.
func (o *output) send() error {
	for rest := o.buf; len(rest) > 0; {
		if err := o.late.within(o.timeout); err != nil {
			return err
		}
		n, err := o.nc.Write(rest[:min(len(rest), piece)])
		if err != nil {
			o.buf = o.buf[:0]
			return err
		}
		if rest = rest[n:]; len(rest) > 0 {
			o.holder.move()
		}
	}
	o.buf = o.buf[:0]
	return nil
}
