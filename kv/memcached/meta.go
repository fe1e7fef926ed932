package memcached

import (
	"bytes"
	"encoding/base64"
	"math"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// maxOpaque is the length of the longest opaque in bytes.
const maxOpaque = 32

// noVersion is what no item has as its version, which is what C0 asks for: 0 would be any.
const noVersion = 1 << 63

// metaName is the second letter of a meta command: g, s, d, a or e.
type metaName byte

// allowed are the flags that each command knows, as memcached 1.6.45 has them, without l.
var allowed = map[metaName]letters{'g': lettersOf("bcCEfhkLNOPqRstTuv"),
	's': lettersOf("bcCEFIkLMNOPqsT"), 'd': lettersOf("bCEIkLOPqTx"),
	'a': lettersOf("bcCDEJkLMNOPqtTv"), 'e': lettersOf("b")}

// letters is a set of flags.
type letters uint64

func lettersOf(text string) (s letters) {
	for _, f := range []byte(text) {
		s |= bit(f)
	}
	return s
}

// bit returns the set of one flag; of what is no letter, none.
func bit(f byte) letters {
	if f|0x20 < 'a' || f|0x20 > 'z' {
		return 0
	}
	return 1 << (f - 'A')
}

func (s letters) has(f byte) bool { return s&bit(f) != 0 }

// request is a meta command.
type request struct {
	name  metaName
	text  []byte // the key as the client wrote it
	flags []byte // the rest of the line
	set   letters

	mode       byte   // M, a capital letter; 0: none
	compare    uint64 // C
	version    uint64 // E
	client     uint32 // F: flags of the item
	life       int64  // T
	vivify     int64  // N
	recache    int64  // R
	delta      uint64 // D
	initial    uint64 // J
	early      bool   // t comes before T: the time is that before
	decoded    [maxKey]byte
	decodedLen int
}

// meta makes a meta command of a line.
func (c *conn) meta(line []byte, n int) next {
	w := &c.w.words
	name := metaName(w.list[0][1])
	least := 2
	if name == 's' {
		least = 3
	}
	wrong := ""
	switch {
	case w.n < 2:
		wrong = "ERROR"
	case w.n < least || len(w.list[1]) > maxKey:
		wrong = badFormat
	}
	if name == 's' && w.n >= 3 {
		if _, ok := w.length(2); !ok {
			wrong = badChunk
		}
	}
	r := &c.w.metas[c.w.n]
	if wrong == "" {
		wrong = r.parse(name, w, line, least)
	}
	switch {
	case name == 's':
		return c.metaSet(r, wrong, n)
	case wrong != "":
		c.say(wrong)
	default:
		c.addMeta(r)
	}
	return c.done(n)
}

// addMeta makes a command of a request, which is that of the batch's next place.
func (c *conn) addMeta(r *request) *op {
	o := c.add(opMeta, r.key(), r.set.has('q'))
	o.meta = r
	return o
}

// metaSet makes an ms of a line that may be wrong.
func (c *conn) metaSet(r *request, wrong string, n int) next {
	w := &c.w.words
	if wrong != "" {
		return c.refuse(wrong, false, w.list[min(2, w.n):min(3, w.n)], n)
	}
	size, _ := w.length(2)
	if size > c.s.cfg.MaxItemSize {
		return c.refuseLarge(size, n, false, r.key())
	}
	value, used, step := c.value(size, n, false, r.key())
	if step != goOn || used == 0 {
		return step
	}
	c.addMeta(r).value = value
	return c.done(used)
}

// key returns the key, as the partition has it.
func (r *request) key() []byte {
	if r.set.has('b') {
		return r.decoded[:r.decodedLen]
	}
	return r.text
}

// parse reads the words of a line, whose flags begin with a word.
func (r *request) parse(name metaName, w *words, line []byte, first int) (wrong string) {
	r.name, r.text, r.set, r.delta = name, w.list[1], 0, 1
	r.mode, r.compare, r.version, r.client, r.initial = 0, 0, 0, 0, 0
	r.life, r.vivify, r.recache, r.early = 0, 0, 0, false
	r.flags = line[len(line):]
	if w.n > first {
		r.flags = line[cap(line)-cap(w.list[first]):]
	}
	for rest := r.flags; len(rest) > 0; {
		var f []byte
		if f, rest = cut(rest); len(f) == 0 {
			continue
		}
		switch {
		case !allowed[name].has(f[0]):
			return "CLIENT_ERROR invalid flag"
		case r.set.has(f[0]):
			return "CLIENT_ERROR duplicate flag"
		}
		r.set |= bit(f[0])
		if !r.flag(f[0], f[1:]) {
			return "CLIENT_ERROR bad token in command line format"
		}
	}
	if r.set.has('b') {
		if base64.StdEncoding.DecodedLen(len(r.text)) > len(r.decoded) {
			return "CLIENT_ERROR error decoding key"
		}
		n, err := base64.StdEncoding.Decode(r.decoded[:], r.text)
		if r.decodedLen = n; err != nil || n == 0 {
			return "CLIENT_ERROR error decoding key"
		}
	}
	return ""
}

// cut returns the first word of a text, and what is behind it.
func cut(b []byte) (word, rest []byte) {
	if n := bytes.IndexByte(b, ' '); n >= 0 {
		return b[:n], b[n+1:]
	}
	return b, nil
}

// flag reads a flag's argument.
func (r *request) flag(f byte, arg []byte) (ok bool) {
	n := uint64(0)
	switch f {
	case 't':
		r.early = !r.set.has('T') && r.name == 'g'
	case 'C':
		if r.compare, ok = number(arg); r.compare == 0 {
			r.compare = noVersion
		}
		return ok
	case 'E':
		r.version, ok = number(arg)
		return ok && r.version != 0 && r.version < 1<<48
	case 'D':
		r.delta, ok = number(arg)
		return ok
	case 'J':
		r.initial, ok = number(arg)
		return ok
	case 'F':
		n, ok = number(arg)
		r.client = uint32(n)
		return ok && n <= math.MaxUint32
	case 'T':
		r.life, ok = signed(arg)
		return ok
	case 'N':
		r.vivify, ok = signed(arg)
		return ok
	case 'R':
		r.recache, ok = signed(arg)
		return ok
	case 'O':
		return len(arg) <= maxOpaque
	case 'M':
		return len(arg) == 1 && r.setMode(arg[0])
	}
	return true
}

// setMode reports whether the command has such a mode.
func (r *request) setMode(mode byte) bool {
	modes := "EAPRSeaprs"
	if r.name == 'a' {
		modes = "ID+-id"
	}
	if bytes.IndexByte([]byte(modes), mode) < 0 {
		return false
	}
	switch {
	case mode == '+':
		mode = 'I'
	case mode == '-':
		mode = 'D'
	default:
		mode &^= 0x20
	}
	r.mode = mode
	return true
}

// code returns what an error is in meta commands.
func code(err error) string {
	switch err {
	case nil:
		return "HD"
	case mica.ErrNotFound:
		return "NF"
	case mica.ErrVersion:
		return "EX"
	case mica.ErrExists:
		return "NS"
	}
	return problem(err)
}
