package memcached

import (
	"net"
	"time"
)

// Sizes of a connection's memory in bytes.
const (
	baseInput  = 4 << 10 // what each connection has for commands
	baseOutput = 4 << 10 // ... for answers, while it answers
	maxLine    = firstClass
)

// input is what a client has said and nobody has done yet: buf[from:to]. Commands are views of it.
// It has baseInput bytes, or a buffer of the account for a longer command.
type input struct {
	nc       net.Conn
	holder   *holder
	lines    *account
	base     []byte
	buf      []byte
	from, to int
	late     deadline
	try      func([]byte) int // reads without waiting; nil: that cannot be done
	filled   bool             // the last read filled the buffer: there may be more
}

// rest returns what is there.
func (in *input) rest() []byte { return in.buf[in.from:in.to] }

// take consumes n bytes, all of which are there.
func (in *input) take(n int) { in.from += n }

// makeRoom moves what is there to the begin, and gets a larger buffer if there is not room for so
// many bytes. It reports false if there is none. Views are lost.
func (in *input) makeRoom(n int, longest time.Duration) bool {
	to := in.buf
	switch {
	case in.from == in.to && n <= len(in.base):
		in.shrink()
		return true
	case n > len(in.buf):
		if to = in.lines.take(n, longest, in.holder); to == nil {
			return false
		}
	}
	in.to = copy(to, in.rest())
	in.from, in.buf = 0, to
	return true
}

// widen makes room behind what is there without waiting, by a larger buffer if need be. It reports
// false if there is none. Views are lost.
func (in *input) widen() bool {
	if len(in.rest()) < len(in.buf) {
		return true // makeRoom moves it
	}
	if classOf(len(in.buf)+1) >= classes {
		return false
	}
	to := in.lines.try(len(in.buf)+1, in.holder)
	if to == nil {
		return false
	}
	n := copy(to, in.rest())
	in.lines.give(in.buf)
	in.from, in.to, in.buf = 0, n, to
	return true
}

// shrink gives a larger buffer back: nothing is there.
func (in *input) shrink() {
	in.from, in.to = 0, 0
	if len(in.buf) > len(in.base) {
		in.lines.give(in.buf)
		in.buf = in.base
	}
}

// read waits for more.
func (in *input) read() error {
	n, err := in.nc.Read(in.buf[in.to:])
	in.to += n
	in.filled = in.to == len(in.buf)
	if n > 0 {
		if len(in.buf) > len(in.base) {
			in.holder.move()
		}
		return nil
	}
	return err
}

// more reads without waiting, if the last read has filled the buffer, and reports whether there was
// something. Who sends much gets a larger buffer meanwhile. Views are lost.
func (in *input) more() bool {
	if !in.filled || in.try == nil {
		return false
	}
	to := in.buf
	if len(to) == len(in.base) {
		if b := in.lines.try(maxLine, in.holder); b != nil {
			to = b
		}
	}
	kept := in.rest()
	if len(kept) == len(to) {
		return false
	}
	copy(to, kept)
	n := in.try(to[len(kept):])
	if n == 0 && len(to) > len(in.buf) {
		in.lines.give(to)
		in.filled = false
		return false
	}
	in.from, in.to, in.buf = 0, len(kept)+n, to
	in.filled = in.to == len(to)
	return n > 0
}

// deadline is one of a connection's. It is set anew when less than a timeout of it is left, and not
// for each call, since setting it takes time: so a timeout is up to a quarter longer.
type deadline struct {
	set func(time.Time) error
	at  time.Time // zero: none
}

// within has the next calls end after a timeout; 0 is none.
func (d *deadline) within(timeout time.Duration) error {
	if timeout <= 0 {
		if d.at.IsZero() {
			return nil
		}
		d.at = time.Time{}
		return d.set(d.at)
	}
	now := time.Now()
	if left := d.at.Sub(now); left >= timeout && left <= timeout+timeout/4 {
		return nil
	}
	d.at = now.Add(timeout + timeout/4)
	return d.set(d.at)
}
