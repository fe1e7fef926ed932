package memcached

import (
	"bufio"
	"bytes"
	"errors"
	"math"
	"net"
	"strconv"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// Limits.
const (
	maxLine = 32 << 10 // bytes of a command line
	maxKey  = 250      // bytes of a key
	keep    = 64 << 10 // bytes of buffers that a connection keeps
)

// Answers of several commands.
const (
	badFormat = "CLIENT_ERROR bad command line format"
	badChunk  = "CLIENT_ERROR bad data chunk"
	tooLarge  = "SERVER_ERROR object too large for cache"
	noMemory  = "SERVER_ERROR out of memory storing object"
)

// errQuit ends a connection.
var errQuit = errors.New("quit")

// conn is a connection.
type conn struct {
	s     *Server
	nc    net.Conn
	r     *bufio.Reader
	w     *bufio.Writer
	words [][]byte // of the line
	key   [maxKey]byte
	body  []byte // a value that does not fit into the reader's buffer
	multi lookups
	quiet bool // no answer to this command
}

// deadlined is a connection whose every write has a deadline.
type deadlined struct {
	net.Conn
	timeout time.Duration
}

func (d *deadlined) Write(b []byte) (int, error) {
	if err := d.SetWriteDeadline(time.Now().Add(d.timeout)); err != nil {
		return 0, err
	}
	return d.Conn.Write(b)
}

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{s: s, nc: nc, r: bufio.NewReaderSize(nc, maxLine),
		w: bufio.NewWriterSize(&deadlined{nc, s.cfg.WriteTimeout}, 16<<10)}
}

// serve answers commands until the connection ends.
func (c *conn) serve() {
	for {
		if c.r.Buffered() == 0 {
			if c.w.Flush() != nil {
				return
			}
			if c.idle() != nil {
				return
			}
		}
		err := c.command()
		if cap(c.body) > keep {
			c.body = nil
		}
		if err == nil {
			continue
		}
		if err == bufio.ErrBufferFull {
			c.say("CLIENT_ERROR line too long")
		}
		_ = c.w.Flush() // the connection ends anyway
		return
	}
}

// idle sets the time by which the client has to say something.
func (c *conn) idle() error {
	if c.s.cfg.IdleTimeout <= 0 {
		return nil
	}
	return c.nc.SetReadDeadline(time.Now().Add(c.s.cfg.IdleTimeout))
}

// command reads a line, and answers it.
func (c *conn) command() error {
	if c.r.Buffered() > 0 && c.w.Buffered() > 0 {
		// Not all of the line may be here, and the client may wait for the answers before it.
		if b, _ := c.r.Peek(c.r.Buffered()); bytes.IndexByte(b, '\n') < 0 {
			if err := c.w.Flush(); err != nil {
				return err
			}
		}
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	c.split(line)
	c.quiet = false
	if len(c.words) == 0 {
		c.say("ERROR")
		return nil
	}
	return c.run(string(c.words[0]))
}

// split finds the words of a line.
func (c *conn) split(line []byte) {
	c.words = c.words[:0]
	for i := 0; i < len(line); {
		if line[i] == ' ' {
			i++
			continue
		}
		n := bytes.IndexByte(line[i:], ' ')
		if n < 0 {
			n = len(line) - i
		}
		c.words = append(c.words, line[i:i+n])
		i += n
	}
}

// run runs a command.
func (c *conn) run(name string) error {
	switch name {
	case "get", "gets":
		if len(c.words) == 2 && len(c.words[1]) <= maxKey {
			return c.single(name)
		}
		return c.get(c.words[1:], how{withCAS: name == "gets"})
	case "gat", "gats":
		return c.gat(name == "gats")
	case "set", "add", "replace", "append", "prepend", "cas":
		return c.store(name)
	case "delete":
		return c.delete()
	case "incr", "decr":
		return c.increment(name == "decr")
	case "touch":
		return c.touch()
	case "mg", "ms", "md", "ma":
		return c.meta(name)
	case "mn":
		c.say("MN")
	case "stats":
		return c.stats()
	case "version":
		c.say("VERSION " + c.s.cfg.Version)
	case "verbosity":
		c.verbosity()
	case "flush_all":
		c.flushAll()
	case "quit":
		return errQuit
	default:
		if foreign(c.words) {
			return errQuit
		}
		c.say("ERROR")
	}
	return nil
}

// foreign reports whether a line, of no command, is of another protocol: HTTP, memcached's binary
// one, or TLS. What comes behind it may look like commands and be none of the client's: the body of
// a form that a browser was made to send, say.
func foreign(words [][]byte) bool {
	first, last := words[0], words[len(words)-1]
	return first[0] == 0x80 || first[0] == 0x16 || string(first) == "POST" ||
		string(first) == "Host:" || bytes.HasPrefix(last, []byte("HTTP/"))
}

// verbosity answers as memcached does, and changes nothing.
func (c *conn) verbosity() {
	if len(c.words) < 2 || len(c.words) > 3 {
		c.say("ERROR")
		return
	}
	level := c.words[1]
	c.noreply(1)
	if _, ok := number(level); !ok {
		c.say(badFormat)
		return
	}
	c.say("OK")
}

// noreply takes the word noreply off the end of a line of more than least words.
func (c *conn) noreply(least int) {
	if n := len(c.words); n > least && string(c.words[n-1]) == "noreply" {
		c.quiet = true
		c.words = c.words[:n-1]
	}
}

// say answers with a line, unless the client wants none. Errors come with the flush.
func (c *conn) say(line string) {
	if !c.quiet {
		_, _ = c.w.WriteString(line)
		_, _ = c.w.WriteString("\r\n")
	}
}

// value reads a value of n bytes and its end of line, both valid until the next read; ok is false
// if the line does not end there.
func (c *conn) value(n int) (b []byte, ok bool, err error) {
	if c.r.Buffered() < n+2 && c.w.Flush() != nil { // the client may wait for the answers before
		return nil, false, errQuit
	}
	if n+2 <= maxLine {
		b, err = c.r.Peek(n + 2)
		if err != nil {
			return nil, false, err
		}
		_, err = c.r.Discard(n + 2) // they are in the buffer
	} else {
		c.body = c.body[:0]
		for len(c.body) < n+2 {
			more, err := c.r.Peek(min(n+2-len(c.body), maxLine))
			if err != nil {
				return nil, false, err
			}
			c.body = append(c.body, more...)
			_, _ = c.r.Discard(len(more)) // they are in the buffer
		}
		b = c.body
	}
	return b[:n], string(b[n:]) == "\r\n", err
}

// length returns the length of a value, which is a word of the line; ok is false if it is none.
func (c *conn) length(word int) (n int, ok bool) {
	if len(c.words) <= word {
		return 0, false
	}
	size, ok := signed(c.words[word])
	return int(size), ok && size >= 0 && size <= math.MaxInt32-2 // as memcached
}

// refuse answers a command that brings a value, whose length is a word of the line, and swallows
// the value. If nobody knows the length the connection ends: the value could be run as commands.
func (c *conn) refuse(answer string, word int) error {
	n, ok := c.length(word)
	if !ok {
		c.quiet = false
		c.say(answer)
		return errQuit
	}
	c.say(answer)
	return c.swallow(n)
}

// swallow reads a value that is not wanted.
func (c *conn) swallow(n int) error {
	if c.r.Buffered() < n+2 && c.w.Flush() != nil { // the client may wait for the answers before
		return errQuit
	}
	_, err := c.r.Discard(n + 2)
	return err
}

// do runs fn on the partition of a key.
func (c *conn) do(key []byte, fn func(p *mica.Partition, hash uint64)) error {
	hash := mica.Hash(key)
	return c.s.cfg.Store.Do(mica.PartitionOf(hash, c.s.cfg.Store.Partitions()),
		func(p *mica.Partition) { fn(p, hash) })
}

// month is the largest time that counts from now, in seconds.
const month = 60 * 60 * 24 * 30

// expires returns the time on a partition's clock that an exptime means.
func expires(now uint32, exptime int64) uint32 {
	switch {
	case exptime == 0:
		return 0
	case exptime < 0:
		return 1 // long ago
	case exptime <= month:
		return uint32(min(int64(now)+exptime, 1<<32-1))
	}
	return uint32(min(exptime, 1<<32-1))
}

func number(b []byte) (uint64, bool) {
	if len(b) > 20 || len(b) > 0 && b[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	return n, err == nil
}

func signed(b []byte) (int64, bool) {
	if len(b) > 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil
}
