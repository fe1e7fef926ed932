package memcached

import (
	"bytes"
	"errors"
	"net"
	"os"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// maxKey is the length of the longest key in bytes.
const maxKey = 250

// errNoMemory ends a connection.
var errNoMemory = errors.New("memcached: no memory for an answer")

// next is what a connection does after it has looked at what its client said.
type next uint8

const (
	goOn    next = iota // with what is behind it
	runThem             // the commands of the batch, and come back
	wait                // for more
	load                // a value that does not fit beside its line
	quit
)

// conn is a connection. Its goroutine reads what there is, makes a batch of commands of it, runs
// the batch, and so on; answers leave before it waits.
type conn struct {
	s    *Server
	nc   net.Conn
	in   input
	out  output
	w    *work // nil while it waits for a command
	long longGet

	need  int  // no command is whole before so many bytes of it are there
	begun bool // the time of a command that is not whole has begun
	// Bytes of a long line that were there when its time began anew.
	gathered int
	swallow  int    // bytes of a refused value that are to come
	body     []byte // a value that does not fit beside its line, whole; of the account
	full     bool   // there was no memory for it
	known    bool   // the client may give commands
	visitor  func(*mica.Partition)
	holder   holder
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, known: s.cfg.Auth == nil}
	c.holder.init(nc)
	tellEarly(c.holder.nc)
	base := make([]byte, baseInput)
	c.in = input{nc: nc, holder: &c.holder, lines: &s.lines, base: base, buf: base, try: tryReader(nc)}
	c.in.late.set = nc.SetReadDeadline
	c.out = output{nc: nc, holder: &c.holder, answers: &s.answers, timeout: s.cfg.WriteTimeout}
	c.out.late.set = nc.SetWriteDeadline
	c.visitor = c.visit
	return c
}

// serve answers commands until the connection ends.
func (c *conn) serve() {
	defer c.release()
	for {
		c.begin()
		step := c.look()
		if step == goOn && c.w.n < batch {
			continue
		}
		if c.run() != nil {
			return
		}
		var err error
		switch step {
		case wait:
			err = c.fill()
		case load:
			err = c.loadValue()
		case quit:
			_ = c.out.send() // the connection ends anyway
			return
		}
		if err != nil {
			return
		}
	}
}

// begin gets what commands need to run.
func (c *conn) begin() {
	if c.w == nil {
		c.w, _ = c.s.works.Get().(*work)
		if c.w == nil {
			c.w = new(work)
		}
		c.out.base = c.w.base[:0]
		c.out.buf = c.out.base
	}
}

// pause gives back what is needed only by commands that run. There are no answers. Nothing of a
// batch that could not end is left to the next connection.
func (c *conn) pause() {
	if c.w == nil {
		return
	}
	c.out.shrink()
	c.out.base, c.out.buf = nil, nil
	c.w.n, c.w.at, c.w.room = 0, 0, 0
	c.s.count(&c.w.counts)
	c.s.works.Put(c.w)
	c.w = nil
}

// release gives all memory back.
func (c *conn) release() {
	c.out.buf = c.out.buf[:0]
	c.pause()
	c.in.shrink()
	c.s.values.give(c.body)
	c.body = nil
}

// look makes a command of what is there.
func (c *conn) look() next {
	switch {
	case c.swallow > 0:
		n := min(c.swallow, len(c.in.rest()))
		c.in.take(n)
		if c.swallow -= n; n > 0 {
			c.begun = false
		}
		if c.swallow > 0 {
			return wait
		}
		return goOn
	case c.long.on:
		return c.moreKeys()
	}
	b := c.in.rest()
	if len(b) == 0 || len(b) < c.need {
		return wait
	}
	end := bytes.IndexByte(b[:min(len(b), maxLine+1)], '\n')
	if end < 0 {
		return c.noEnd(b[:min(len(b), maxLine)])
	}
	return c.whole(b, end)
}

// whole makes a command of a line that ends before byte end.
func (c *conn) whole(b []byte, end int) next {
	line := b[:end]
	if end > 0 && line[end-1] == '\r' {
		line = line[:end-1]
	}
	return c.command(line, end+1)
}

// noEnd looks at the begin of a line, maxLine bytes at most.
func (c *conn) noEnd(b []byte) next {
	switch {
	case b[0] == binaryMagic || b[0] == tlsHandshake:
		return quit
	case len(b) < maxLine && (c.known || len(b) < baseInput):
		c.need = len(b) + 1
		return wait
	case c.known && longGets(b):
		if end := bytes.IndexByte(c.in.rest(), '\n'); end >= 0 {
			return c.whole(c.in.rest(), end)
		}
		if c.gather() {
			return wait
		}
		if c.beginLong(b) {
			return goOn
		}
	}
	c.say("CLIENT_ERROR line too long")
	return quit
}

// done consumes a command.
func (c *conn) done(n int) next {
	c.in.take(n)
	c.need, c.begun, c.gathered = 0, false, 0
	return goOn
}

// say answers with a line.
func (c *conn) say(line string) {
	o := c.w.add()
	o.kind, o.text = opText, line
}

// fill waits for more of what the client says. The answers before leave first, if they have to.
func (c *conn) fill() error {
	if c.in.more() {
		return nil
	}
	if err := c.out.send(); err != nil {
		return err
	}
	c.pause()
	if !c.in.makeRoom(max(c.need, len(c.in.rest())+1), c.s.cfg.ReadTimeout) {
		c.tell(noMemory)
		return errNoMemory
	}
	for {
		waits := len(c.in.rest()) == 0 && c.swallow == 0 && !c.long.on
		if err := c.setTime(waits); err != nil {
			return err
		}
		err := c.in.read()
		if waits && c.s.cfg.IdleTimeout <= 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			if err = c.in.late.within(0); err == nil { // it was that of an earlier command
				continue
			}
		} else if waits && errors.Is(err, os.ErrDeadlineExceeded) {
			c.s.totals[idleKicks].Add(1)
		}
		return err
	}
}

// setTime sets how long the client may take: for the rest of a command ReadTimeout from its begin.
func (c *conn) setTime(waits bool) error {
	if !waits {
		if c.begun {
			return nil
		}
		c.begun = true
		return c.in.late.within(c.s.cfg.ReadTimeout)
	}
	if c.s.cfg.IdleTimeout <= 0 {
		return nil // that of an earlier command may be left
	}
	return c.in.late.within(c.s.cfg.IdleTimeout)
}

// tell writes a line before the connection ends.
func (c *conn) tell(line string) { sayPlain(c.nc, line) }

// loadValue reads a value of need bytes with its line, which does not fit into the input. Then the
// line is looked at again.
func (c *conn) loadValue() error {
	if err := c.out.send(); err != nil {
		return err
	}
	c.pause()
	line := bytes.IndexByte(c.in.rest(), '\n') + 1
	n := c.need - line
	c.need = 0
	body := c.s.values.take(n, c.s.cfg.ReadTimeout, &c.holder)
	if body == nil {
		c.full = true
		return nil
	}
	c.body = body[:n]
	got := copy(c.body, c.in.rest()[line:])
	c.in.to = c.in.from + line
	return c.readBody(got)
}

// leastRead is how many bytes of a large value have to come in a ReadTimeout, or all that are
// left.
const leastRead = 16 << 10

// readBody reads a value, of which some bytes are there.
func (c *conn) readBody(got int) error {
	for got < len(c.body) {
		if err := c.in.late.within(c.s.cfg.ReadTimeout); err != nil {
			return err
		}
		for goal := min(got+leastRead, len(c.body)); got < goal; {
			n, err := c.nc.Read(c.body[got:])
			if got += n; err != nil && got < goal {
				return err
			}
			c.holder.move()
		}
	}
	return nil
}
