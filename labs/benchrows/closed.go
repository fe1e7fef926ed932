package benchrows

import "time"

// Closed is a closed loop in the thread of an event loop: each operation that ends starts the next
// one in its slot, until the time is over.
type Closed struct {
	Err     error // the first one; nothing starts afterwards
	over    bool  // the time is; it is looked at once in a pass of the loop
	ops     int
	pending int
}

// Fail notes an error, if it is one.
func (c *Closed) Fail(err error) {
	if err != nil && c.Err == nil {
		c.Err = err
	}
}

// Ended goes on in a slot.
func (c *Closed) Ended(slot uint64, issue func(slot uint64)) {
	c.ops++
	if c.Err == nil && !c.over {
		issue(slot)
	} else {
		c.pending--
	}
}

// Run keeps depth operations under way for some time and returns the nanoseconds of one. The event
// loop runs until its function returns true.
func (c *Closed) Run(
	each time.Duration, depth int, issue func(slot uint64), loop func(until func() bool) error,
) float64 {
	if c.Err != nil {
		return 1
	}
	begin := time.Now()
	c.over, c.ops, c.pending = false, 0, depth
	for i := range uint64(depth) {
		issue(i)
	}
	c.Fail(loop(func() bool {
		c.over = c.over || time.Since(begin) >= each
		return c.pending == 0 || c.Err != nil
	}))
	return float64(time.Since(begin)) / float64(max(c.ops, 1))
}
