package memcached

import "bytes"

// longGet is a get, gets, gat or gats whose line does not fit into the input: its keys are looked
// up as they come.
type longGet struct {
	on      bool
	kind    opKind
	withCAS bool
	life    int64
	refused bool // a key was too long: what follows is thrown away
}

// get makes the commands of a line with a list of keys behind some words. Nothing is looked up if
// one of the keys is too long.
func (c *conn) get(line []byte, n, words int, kind opKind) next {
	w := &c.w.words
	if w.n <= words {
		if w.n == 2 {
			c.say("END") // as memcached says to gat
		} else {
			c.say("ERROR")
		}
		return c.done(n)
	}
	name := w.list[0]
	g := longGet{kind: kind, withCAS: name[len(name)-1] == 's'}
	if words == 2 {
		var ok bool
		if g.life, ok = signed(w.list[1]); !ok {
			c.say(badTime)
			return c.done(n)
		}
	}
	if w.n == words+1 { // one key, by far the most
		if len(w.list[words]) > maxKey {
			c.say(badFormat)
			return c.done(n)
		}
		c.addGet(&g, w.list[words]).text = "END\r\n"
		return c.done(n)
	}
	if hasLongWord(line) {
		c.say(badFormat)
		return c.done(n)
	}
	c.startKeys(g, words)
	return goOn
}

// longGets reports whether the begin of a line is that of a list of keys.
func longGets(b []byte) bool {
	name, _ := cut(b)
	switch string(name) {
	case "get", "gets", "gat", "gats":
		return true
	}
	return false
}

// gather prepares to read more of a line of keys: it is read whole if there is memory, since its
// client may read no answer before it has sent all of it, and answers do not go where nobody reads.
// It reports false if there is none: then keys are looked up as they come.
func (c *conn) gather() bool {
	n := len(c.in.rest())
	if !c.in.widen() {
		return false
	}
	if n-c.gathered >= leastRead {
		c.gathered, c.begun = n, false
	}
	c.need = n + 1
	return true
}

// beginLong begins a get whose line does not fit into the input. It reports false if no list of
// keys is there.
func (c *conn) beginLong(b []byte) bool {
	w := &c.w.words
	if w.split(b); w.n < 3 {
		return false
	}
	g, words := longGet{kind: opGet}, 1
	switch string(w.list[0]) {
	case "gat", "gats":
		g.kind, words = opTouchGet, 2
		var ok bool
		if g.life, ok = signed(w.list[1]); !ok {
			c.say(badTime)
			g.refused = true
		}
	}
	g.withCAS = w.list[0][len(w.list[0])-1] == 's'
	if !g.refused && hasLongWord(b) {
		c.say(badFormat)
		g.refused = true
	}
	c.startKeys(g, words)
	return true
}

// hasLongWord reports whether a line has a word that is too long for a key.
func hasLongWord(line []byte) bool {
	for len(line) > maxKey {
		n := bytes.LastIndexByte(line[:maxKey+1], ' ')
		if n < 0 {
			return true
		}
		line = line[n+1:]
	}
	return false
}

// startKeys consumes the words before the keys.
func (c *conn) startKeys(g longGet, words int) {
	b, at := c.in.rest(), 0
	for range words {
		for b[at] == ' ' {
			at++
		}
		for b[at] != ' ' {
			at++
		}
	}
	c.long = g
	c.long.on = true
	c.done(at)
}

// moreKeys makes commands of the keys that are there, as many as the batch has room for.
func (c *conn) moreKeys() next {
	for c.w.n < batch {
		b := c.in.rest()
		n := bytes.IndexAny(b[:min(len(b), maxKey+2)], " \n")
		if n < 0 {
			if len(b) < maxKey+2 {
				c.need = len(b) + 1
				return wait
			}
			if !c.long.refused {
				c.long.refused = true
				c.say(badFormat)
			}
			c.done(maxKey + 1)
			continue
		}
		key, last := b[:n], b[n] == '\n'
		if last && n > 0 && key[n-1] == '\r' {
			key = key[:n-1]
		}
		switch refused := c.long.refused; {
		case len(key) > maxKey && !refused:
			c.long.refused = true
			c.say(badFormat)
		case len(key) > 0 && !refused:
			c.addGet(&c.long, key)
		}
		c.done(n + 1)
		if last {
			return c.endKeys()
		}
	}
	return goOn
}

// endKeys ends a list of keys.
func (c *conn) endKeys() next {
	c.long.on = false
	if !c.long.refused {
		c.say("END")
	}
	return goOn
}

// addGet adds a lookup.
func (c *conn) addGet(g *longGet, key []byte) *op {
	o := c.add(g.kind, key, false)
	o.withCAS, o.life, o.text = g.withCAS, g.life, ""
	return o
}
