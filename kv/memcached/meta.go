package memcached

import (
	"encoding/base64"
	"strconv"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// request is a meta command.
type request struct {
	name  string
	key   []byte
	text  []byte // the key as the client wrote it
	flags [][]byte
	size  int // ms

	base64, quiet, value bool
	mode                 byte // of ms or ma, 0: none
	compare              uint64
	life                 int64
	touch                bool
	early                bool   // mg: the time is asked for before it is set
	client               uint32 // flags of the item
	delta                uint64
}

// allowed are the flags that each command knows.
var allowed = map[string]string{"mg": "bcfkOqstvT", "ms": "bcCFkOqsTM", "md": "bCkOq",
	"ma": "bcCDkMOqtvT"}

// meta answers mg, ms, md and ma.
func (c *conn) meta(name string) error {
	r, wrong := c.parseMeta(name)
	switch {
	case name == "ms" && wrong == "" && r.size > mica.MaxValue:
		return c.refuse(tooLarge, 2)
	case name == "ms" && wrong == "":
		return c.metaSet(r)
	case name == "ms":
		return c.refuse(wrong, 2)
	case wrong != "":
		c.say(wrong)
		return nil
	}
	var answer string
	var it mica.Item
	var now uint32
	out := c.multi.out[:0]
	err := c.do(r.key, func(p *mica.Partition, hash uint64) {
		now = p.Now()
		answer, it = r.run(p, hash)
		if answer == "HD" || answer == "VA" { // while the item is there
			out = r.append(out, answer, &it, now)
		} else {
			out = r.append(out, answer, nil, now)
		}
	})
	if err != nil {
		return err
	}
	if c.multi.out = out; cap(out) > keep {
		c.multi.out = nil
	}
	if !r.quiet || !silent[name+" "+answer] {
		_, _ = c.w.Write(out) // errors come with the flush
	}
	return nil
}

// silent are the answers that the flag q leaves out, in memcached 1.6.18.
var silent = map[string]bool{"mg EN": true, "md HD": true, "ma HD": true, "ma VA": true}

// parseMeta reads the line. The key and the flags are part of it, but for those of ms.
func (c *conn) parseMeta(name string) (r request, wrong string) {
	r.name = name
	words, at := c.words, 2
	if name == "ms" {
		at = 3
	}
	if len(words) < 2 {
		return r, "ERROR"
	}
	if len(words) < at || len(words[1]) > maxKey {
		return r, badFormat
	}
	if name == "ms" {
		var ok bool
		if r.size, ok = c.length(2); !ok {
			return r, badChunk
		}
	}
	r.key, r.text, r.flags, r.delta = words[1], words[1], words[at:], 1
	for _, f := range r.flags {
		if wrong := r.flag(f[0], f[1:]); wrong != "" {
			return r, wrong
		}
	}
	if r.base64 {
		key, err := base64.StdEncoding.DecodeString(string(r.text))
		if err != nil || len(key) == 0 || len(key) > maxKey {
			return r, "CLIENT_ERROR error decoding key"
		}
		r.key = key
	}
	return r, ""
}

// flag reads a flag and its argument.
func (r *request) flag(f byte, arg []byte) (wrong string) {
	known := false
	for _, a := range []byte(allowed[r.name]) {
		known = known || a == f
	}
	if !known {
		return "CLIENT_ERROR invalid flag"
	}
	ok := true
	var n uint64
	switch f {
	case 'b':
		r.base64 = true
	case 'q':
		r.quiet = true
	case 'v':
		r.value = true
	case 't':
		r.early = !r.touch && r.name == "mg"
	case 'C':
		r.compare, ok = number(arg)
		ok = ok && r.compare != 0
	case 'D':
		r.delta, ok = number(arg)
	case 'F':
		n, ok = number(arg)
		r.client, ok = uint32(n), ok && n < 1<<32
	case 'T':
		r.life, r.touch = 0, true
		r.life, ok = signed(arg)
	case 'O':
		ok = len(arg) <= 32
	case 'M':
		if ok = len(arg) == 1; ok {
			r.mode = arg[0]
			ok = validMode(r.name, r.mode)
		}
	}
	if !ok {
		return "CLIENT_ERROR bad token in command line format"
	}
	return ""
}

func validMode(name string, mode byte) bool {
	modes := "IiDd+-"
	if name == "ms" {
		modes = "SsEeAaPpRr"
	}
	for _, m := range []byte(modes) {
		if m == mode {
			return true
		}
	}
	return false
}

// run does mg, md or ma.
func (r *request) run(p *mica.Partition, hash uint64) (answer string, it mica.Item) {
	switch r.name {
	case "mg":
		var ok bool
		if r.touch {
			var old mica.Item
			if r.early {
				old, _ = p.Get(hash, r.key)
			}
			if it, ok = p.Touch(hash, r.key, expires(p.Now(), r.life)); r.early {
				it.Expires = old.Expires
			}
		} else {
			it, ok = p.Get(hash, r.key)
		}
		switch {
		case !ok:
			return "EN", it
		case r.value:
			return "VA", it
		}
		return "HD", it
	case "md":
		return code(p.Delete(hash, r.key, r.compare)), it
	}
	down := r.mode == 'D' || r.mode == 'd' || r.mode == '-'
	if _, _, err := p.Increment(hash, r.key, r.delta, down, r.compare); err != nil {
		return code(err), it
	}
	if r.touch {
		it, _ = p.Touch(hash, r.key, expires(p.Now(), r.life))
	} else {
		it, _ = p.Get(hash, r.key)
	}
	if !r.value {
		return "HD", it
	}
	for n := len(it.Value); n > 0 && it.Value[n-1] == ' '; n = len(it.Value) {
		it.Value = it.Value[:n-1]
	}
	return "VA", it
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

// append appends an answer: the code, the fields that flags ask for, and the value. If
// there is no item, flags that the client sent come back as they are, and others are left out.
func (r *request) append(b []byte, answer string, it *mica.Item, now uint32) []byte {
	b = append(b, answer...)
	if len(answer) > 2 {
		return append(b, "\r\n"...)
	}
	if answer == "VA" {
		b = strconv.AppendInt(append(b, ' '), int64(len(it.Value)), 10)
	}
	for _, f := range r.flags {
		switch f[0] {
		case 'O', 'k', 'b':
			b = append(b, ' ', f[0])
			if f[0] == 'k' {
				b = append(b, r.text...)
			}
			b = append(b, f[1:]...)
		case 'c', 'f', 's', 't':
			if it != nil {
				b = r.appendField(append(b, ' ', f[0]), f[0], it, now)
			}
		}
	}
	b = append(b, "\r\n"...)
	if answer == "VA" {
		b = append(append(b, it.Value...), "\r\n"...)
	}
	return b
}

func (r *request) appendField(b []byte, f byte, it *mica.Item, now uint32) []byte {
	switch f {
	case 'c':
		return strconv.AppendUint(b, it.Version, 10)
	case 'f':
		return strconv.AppendUint(b, uint64(it.Flags), 10)
	case 's':
		return strconv.AppendInt(b, int64(len(it.Value)), 10)
	}
	if it.Expires == 0 {
		return append(b, "-1"...)
	}
	return strconv.AppendInt(b, int64(it.Expires)-int64(now), 10)
}

// metaSet reads the value of an ms, and answers.
func (c *conn) metaSet(r request) error {
	// The line goes with the next read: what the answer needs of it is copied.
	line := make([]byte, 0, maxKey)
	line = append(line, r.text...)
	r.text = line
	if !r.base64 {
		r.key = line
	}
	flags := r.flags[:0:0]
	for _, f := range r.flags {
		if f[0] == 'O' || f[0] == 'k' || f[0] == 'b' || f[0] == 'c' || f[0] == 's' {
			flags = append(flags, append([]byte(nil), f...))
		}
	}
	r.flags = flags
	value, ok, err := c.value(r.size)
	if err != nil {
		return err
	}
	if !ok {
		c.say(badChunk)
		return nil
	}
	var result error
	it := mica.Item{Value: value, Flags: r.client}
	err = c.do(r.key, func(p *mica.Partition, hash uint64) {
		it.Version, result = r.set(p, hash, value)
	})
	if err != nil {
		return err
	}
	answer := code(result)
	if adds := r.mode|0x20 == 'a' || r.mode|0x20 == 'p'; answer == "NF" && (r.compare == 0 || adds) {
		answer = "NS"
	}
	if r.quiet && answer == "HD" {
		return nil
	}
	c.multi.out = r.append(c.multi.out[:0], answer, &it, 0) // version 0 if nothing was stored
	_, _ = c.w.Write(c.multi.out)                           // errors come with the flush
	return nil
}

// set does an ms.
func (r *request) set(p *mica.Partition, hash uint64, value []byte) (uint64, error) {
	w := mica.Write{Hash: hash, Key: r.key, Value: value, Flags: r.client,
		Expires: expires(p.Now(), r.life), Version: r.compare}
	if r.compare != 0 {
		w.If = mica.IfVersion
	}
	switch r.mode {
	case 'A', 'a', 'P', 'p':
		return p.Concat(hash, r.key, value, r.mode == 'P' || r.mode == 'p', r.compare)
	case 'E', 'e':
		w.If = mica.IfAbsent
	case 'R', 'r':
		if r.compare == 0 {
			w.If = mica.IfPresent
		}
	}
	return p.Write(&w)
}
