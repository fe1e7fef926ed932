package memcached

import "bytes"

// maxAuth is the length in bytes of the longest user and password together.
const maxAuth = 1 << 10

// authenticate answers a command of a client that has not shown a user and a password: in the value
// of a set, as memcached's option -Y has it. Nothing else is done for it: it has the input that all
// connections have, and nothing of the accounts.
func (c *conn) authenticate(n int) next {
	if c.w.n > 0 {
		return runThem
	}
	w := &c.w.words
	if w.n < 5 || string(w.list[0]) != "set" {
		c.say("CLIENT_ERROR unauthenticated")
		return quit // a value may follow
	}
	size, ok := w.length(4)
	if !ok || size > maxAuth || n+size+2 > baseInput {
		c.say("CLIENT_ERROR auth token too long")
		return quit
	}
	value, used, step := c.value(size, n, false, nil)
	if step != goOn || used == 0 {
		return step
	}
	n = used
	c.w.counts.add(authDone, 1)
	user, password, ok := bytes.Cut(value, []byte{' '})
	if c.known = ok && c.s.cfg.Auth(string(user), string(password)); !c.known {
		c.w.counts.add(authFailed, 1)
		c.say("CLIENT_ERROR authentication failure")
		return quit
	}
	c.say("STORED")
	return c.done(n)
}
