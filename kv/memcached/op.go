package memcached

import (
	"strconv"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// batch is how many commands are run together.
const batch = 32

// opKind is a kind of command.
type opKind uint8

const (
	opText opKind = iota // an answer that is known already
	opGet
	opTouchGet // gat
	opSet
	opAdd
	opReplace
	opAppend
	opPrepend
	opCAS
	opDelete
	opIncrement
	opDecrement
	opTouch
	opMeta
	opForget // a cache's item whose new value was refused
)

// op is a command of a batch. Texts are views of the input.
type op struct {
	kind           opKind
	quiet, withCAS bool
	warm           bool // its lines of memory have been asked for
	part           int32
	client         uint32       // the client's flags of the item
	hash           mica.KeyHash // once it is warm
	life           int64        // exptime
	compare        uint64       // cas; increment and decrement: delta
	key, value     []byte
	text           string   // opText: the answer; a get: what follows it
	meta           *request // opMeta
}

// work is what a connection needs while commands run.
type work struct {
	words  words
	ops    [batch + 1]op // one step makes two at most
	metas  [batch]request
	hashes [batch + 1]mica.KeyHash
	n, at  int // commands, and those that have run
	part   int32
	room   int // bytes that the next answer needs, if there was no room for it
	counts counts
	base   [baseOutput]byte
}

// add makes a command.
func (w *work) add() *op {
	o := &w.ops[w.n]
	w.n++
	o.warm, o.quiet = false, false
	return o
}

// smallAnswer is the room in bytes that each answer without a value fits into.
const smallAnswer = 1 << 10

// run runs the commands of the batch in their order, and makes their answers: one visit to a
// partition runs those that follow each other there.
func (c *conn) run() error {
	w := c.w
	for w.at < w.n {
		o := &w.ops[w.at]
		switch {
		case o.kind != opText:
			w.part = o.part
			if err := c.s.cfg.Store.Do(int(o.part), c.visitor); err != nil {
				return err
			}
		case c.out.has(len(o.text) + 2):
			c.text(o)
			w.at++
		default:
			w.room = len(o.text) + 2
		}
		if w.room > 0 {
			if err := c.out.makeRoom(w.room); err != nil {
				return err
			}
			w.room = 0
		}
	}
	w.n, w.at = 0, 0
	c.drop()
	c.s.count(&w.counts)
	return nil
}

func (c *conn) text(o *op) {
	c.out.buf = append(append(c.out.buf, o.text...), "\r\n"...)
}

// visit runs commands on a partition, as long as the next one is for it and its answer has room.
func (c *conn) visit(p *mica.Partition) {
	w := c.w
	c.s.flushes[w.part].due(p)
	for w.at < w.n {
		o := &w.ops[w.at]
		if !c.out.has(smallAnswer) {
			w.room = smallAnswer
			return
		}
		switch {
		case o.kind == opText:
			if len(o.text)+2 > smallAnswer {
				return // run does it
			}
			c.text(o)
		case o.part != w.part:
			return
		default:
			if !o.warm {
				c.warm(p)
			}
			if !c.do(p, o) {
				return
			}
		}
		w.at++
	}
}

// warm asks for the lines of memory of all commands on a partition that are left.
func (c *conn) warm(p *mica.Partition) {
	w, n := c.w, 0
	for i := w.at; i < w.n; i++ {
		if o := &w.ops[i]; o.kind != opText && o.part == w.part {
			o.warm = true
			o.hash = p.Hash(o.key)
			w.hashes[n] = o.hash
			n++
		}
	}
	if n > 1 {
		p.Warm(w.hashes[:n])
	}
}

// do runs a command, and appends its answer. It reports false if there is no room for the answer:
// then the command is to be run again.
func (c *conn) do(p *mica.Partition, o *op) bool {
	switch o.kind {
	case opGet, opTouchGet:
		return c.doGet(p, o)
	case opMeta:
		return c.doMeta(p, o)
	case opDelete:
		c.doDelete(p, o)
	case opIncrement, opDecrement:
		c.doIncrement(p, o)
	case opTouch:
		c.doTouch(p, o)
	case opForget:
		if p.Mode() == mica.Cache {
			_ = p.Delete(o.hash, o.key, 0) // if it is there
		}
	default:
		c.doStore(p, o)
	}
	return true
}

// answer appends an answer, if the client wants one.
func (c *conn) answer(o *op, line string) {
	if !o.quiet {
		c.out.buf = append(append(c.out.buf, line...), "\r\n"...)
	}
}

func (c *conn) doGet(p *mica.Partition, o *op) bool {
	var it mica.Item
	var found bool
	n := &c.w.counts
	if o.kind == opTouchGet {
		it, found = p.Touch(o.hash, o.key, expires(p.Now(), o.life))
	} else {
		it, found = p.Get(o.hash, o.key)
	}
	if room := smallAnswer + len(it.Value); !c.out.has(room) {
		c.w.room = room
		return false
	}
	n.add(cmdGet, 1)
	if o.kind == opTouchGet {
		n.add(cmdTouch, 1)
		n.hit(touchHits, touchMisses, found)
	}
	n.hit(getHits, getMisses, found)
	b := c.out.buf
	if found {
		b = append(append(b, "VALUE "...), o.key...)
		b = strconv.AppendUint(append(b, ' '), uint64(it.Flags), 10)
		b = strconv.AppendUint(append(b, ' '), uint64(len(it.Value)), 10)
		if o.withCAS {
			b = strconv.AppendUint(append(b, ' '), it.Version, 10)
		}
		b = append(append(append(b, "\r\n"...), it.Value...), "\r\n"...)
	}
	c.out.buf = append(b, o.text...)
	return true
}

func (c *conn) doStore(p *mica.Partition, o *op) {
	w := mica.Write{Hash: o.hash, Key: o.key, Value: o.value, Flags: o.client,
		Expires: expires(p.Now(), o.life), Version: o.compare}
	var err error
	switch o.kind {
	case opAppend, opPrepend:
		_, err = p.Concat(o.hash, o.key, o.value, o.kind == opPrepend, 0)
	case opAdd:
		w.If = mica.IfAbsent
		_, err = p.Write(&w)
	case opReplace:
		w.If = mica.IfPresent
		_, err = p.Write(&w)
	case opCAS:
		w.If = mica.IfVersion
		_, err = p.Write(&w)
		c.w.counts.swap(err)
	default:
		_, err = p.Write(&w)
	}
	c.w.counts.add(cmdSet, 1)
	switch {
	case err == nil:
		c.answer(o, "STORED")
	case err == mica.ErrVersion:
		c.answer(o, "EXISTS")
	case err == mica.ErrNotFound && o.kind == opCAS:
		c.answer(o, "NOT_FOUND")
	case err == mica.ErrExists || err == mica.ErrNotFound:
		c.answer(o, "NOT_STORED")
	default:
		c.answer(o, problem(err))
	}
}

// problem returns the answer to an error that is the server's, or that of a size.
func problem(err error) string {
	switch err {
	case mica.ErrFullItems, mica.ErrFullIndex: // which one, stats say
		return noMemory
	case mica.ErrTooLarge, mica.ErrValue:
		return tooLarge
	case mica.ErrNumber:
		return "CLIENT_ERROR cannot increment or decrement non-numeric value"
	}
	return "SERVER_ERROR " + err.Error()
}

func (c *conn) doDelete(p *mica.Partition, o *op) {
	err := p.Delete(o.hash, o.key, 0)
	c.w.counts.hit(deleteHits, deleteMisses, err == nil)
	if err != nil {
		c.answer(o, "NOT_FOUND")
	} else {
		c.answer(o, "DELETED")
	}
}

func (c *conn) doIncrement(p *mica.Partition, o *op) {
	value, _, err := p.Increment(o.hash, o.key, o.compare, o.kind == opDecrement, 0)
	c.w.counts.arithmetic(o.kind == opDecrement, err)
	switch {
	case err == mica.ErrNotFound:
		c.answer(o, "NOT_FOUND")
	case err != nil:
		c.answer(o, problem(err))
	case !o.quiet:
		c.out.buf = append(strconv.AppendUint(c.out.buf, value, 10), "\r\n"...)
	}
}

func (c *conn) doTouch(p *mica.Partition, o *op) {
	_, found := p.Touch(o.hash, o.key, expires(p.Now(), o.life))
	c.w.counts.add(cmdTouch, 1)
	c.w.counts.hit(touchHits, touchMisses, found)
	if found {
		c.answer(o, "TOUCHED")
	} else {
		c.answer(o, "NOT_FOUND")
	}
}
