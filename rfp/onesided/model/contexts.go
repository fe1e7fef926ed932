package model

import "math/rand/v2"

// contexts is an adapter's cache of connections. One that does not fit takes the place of another,
// drawn at random: the papers do not say which one goes.
type contexts struct {
	most  int // 0: all
	held  []*Link
	where map[*Link]int
}

// has reports whether a connection was held. It is held from now on.
func (c *contexts) has(l *Link, rng *rand.Rand) bool {
	if c.most == 0 {
		return true
	}
	if _, ok := c.where[l]; ok {
		return true
	}
	if c.where == nil {
		c.where = make(map[*Link]int)
	}
	if len(c.held) < c.most {
		c.where[l] = len(c.held)
		c.held = append(c.held, l)
		return false
	}
	i := rng.IntN(c.most)
	delete(c.where, c.held[i])
	c.held[i], c.where[l] = l, i
	return false
}
