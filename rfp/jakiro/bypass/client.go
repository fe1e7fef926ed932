package bypass

import (
	"fmt"
	"math/bits"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// MaxWindow bounds the GETs of a client under way.
const MaxWindow = 64

// patience is how often a GET begins again because the server wrote what it read.
const patience = 32

// Done gets the result of a GET: the value, valid until it returns, whether the key is there, or an
// error of the link or of the call.
type Done func(tag uint64, value []byte, found bool, err error)

// Stats counts what a client has done.
type Stats struct {
	Gets  uint64 // that have ended
	Reads uint64
	Torn  uint64 // entries and items with a wrong checksum
	Asked uint64 // GETs that ended by a call
}

// Client reads a table. One goroutine at a time uses it.
type Client struct {
	l       Layout
	link    onesided.Link
	calls   *rfp.Client
	mem     []byte
	gets    [MaxWindow]get
	free    uint64
	waiting uint64 // GETs that a call must end, as soon as there is room for it
	batch   onesided.Batch
	room    [16]onesided.Completion
	err     error
	stats   Stats
}

// get is a GET under way.
type get struct {
	key     [255]byte
	size    int
	hash    uint64
	probe   int
	again   int
	found   entry
	reading bool // the item, not an entry
	tag     uint64
	done    Done
	asked   func(tag uint64, resp []byte, err error)
}

// ClientSpecs returns the regions of a client's side of the link, for so many GETs under way.
func (l Layout) ClientSpecs(window int) []onesided.Spec {
	return []onesided.Spec{{Size: window * l.landing()}}
}

// landing is the memory of a GET: an entry, and an item.
func (l Layout) landing() int { return entryBytes + l.stride() }

// NewClient returns a client that READs over a link whose peer has the regions of Layout.Specs, and
// calls over another one. It owns both. Errors: ErrLayout.
func NewClient(l Layout, link onesided.Link, calls *rfp.Client, window int) (*Client, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	peer, want := link.Peer(), l.Specs()
	if window < 1 || window > MaxWindow || len(peer) != len(want) || peer[0] != want[0] ||
		peer[1] != want[1] || len(link.Region(0)) != l.ClientSpecs(window)[0].Size {
		return nil, fmt.Errorf("%w: %d GETs, the server's regions are %+v", ErrLayout, window, peer)
	}
	c := &Client{l: l, link: link, calls: calls, mem: link.Region(0),
		free: 1<<window - 1}
	if window == 64 {
		c.free = 1<<64 - 1
	}
	for i := range window {
		c.gets[i].asked = func(_ uint64, resp []byte, err error) {
			value, found := jakiro.Value(resp)
			c.end(i, value, found, err)
		}
	}
	return c, nil
}

// Stats returns the counters.
func (c *Client) Stats() Stats { return c.stats }

// Err returns why the client has ended, or nil.
func (c *Client) Err() error { return c.err }

// Ready reports whether the client takes a GET now.
func (c *Client) Ready() bool { return c.free != 0 && c.err == nil && c.calls.Ready() }

// Get begins a GET. Errors, without a call of done: rfp.ErrBusy, ErrSize, and what Err returns.
func (c *Client) Get(key []byte, tag uint64, done Done) error {
	switch {
	case c.err != nil:
		return c.err
	case c.free == 0:
		return rfp.ErrBusy
	case len(key) < 1 || len(key) > 255:
		return ErrSize
	}
	i := bits.TrailingZeros64(c.free)
	c.free &^= 1 << i
	g := &c.gets[i]
	g.size, g.hash, g.again, g.tag, g.done = copy(g.key[:], key), hashOf(key), 0, tag, done
	c.look(i, 0)
	return nil
}

// look READs place probe of the key.
func (c *Client) look(i, probe int) {
	g := &c.gets[i]
	g.probe, g.reading = probe, false
	c.stats.Reads++
	c.batch.Read(0, i*c.l.landing(), 0, c.l.place(g.hash, probe)*entryBytes, entryBytes, uint64(i))
}

// Poll makes progress and returns how many GETs have ended.
func (c *Client) Poll(now rfp.Time) int {
	if c.err != nil {
		return 0
	}
	before := c.stats.Gets
	c.calls.Poll(now)
	for n := len(c.room); n == len(c.room) && c.err == nil; {
		n = c.link.Poll(c.room[:])
		for _, d := range c.room[:n] {
			if d.Err != nil {
				break // the link's error, below
			}
			c.landed(int(d.ID))
		}
	}
	for w := c.waiting; w != 0 && c.calls.Ready(); w &= w - 1 {
		c.ask(bits.TrailingZeros64(w))
	}
	if err := c.link.Err(); err != nil {
		c.fail(err)
	} else if err := c.calls.Err(); err != nil {
		c.fail(err)
	}
	if c.err == nil && len(c.batch.Ops) > 0 {
		c.ring()
	}
	return int(c.stats.Gets - before)
}

func (c *Client) ring() {
	switch err := c.link.Post(&c.batch); err {
	case nil:
		c.batch.Reset()
	case onesided.ErrFull:
	default:
		c.fail(err)
	}
}

// landed looks at what a READ has brought.
func (c *Client) landed(i int) {
	g := &c.gets[i]
	mem := c.mem[i*c.l.landing():]
	if g.reading {
		c.item(i, mem[entryBytes:entryBytes+g.found.key+g.found.value])
		return
	}
	e, ok := parse(mem[:entryBytes])
	switch {
	case !ok:
		c.torn(i, g.probe)
	case e.hash != g.hash || e.key != g.size:
		c.next(i)
	case e.item >= c.l.items() || e.key+e.value > c.l.Item:
		c.wait(i) // no server makes such an entry: let it answer by itself
	default:
		g.found, g.reading = e, true
		c.stats.Reads++
		c.batch.Read(0, i*c.l.landing()+entryBytes, 1, e.item*c.l.stride(), e.key+e.value, uint64(i))
	}
}

// item looks at an item.
func (c *Client) item(i int, mem []byte) {
	g := &c.gets[i]
	switch {
	case sum(mem) != g.found.sum:
		c.torn(i, 0)
	case string(mem[:g.size]) != string(g.key[:g.size]):
		c.next(i)
	default:
		c.end(i, mem[g.size:], true, nil)
	}
}

// next goes on with the key's next place.
func (c *Client) next(i int) {
	if p := c.gets[i].probe + 1; p < ways {
		c.look(i, p)
		return
	}
	c.wait(i)
}

// torn begins again at a place, or asks the server after too many times.
func (c *Client) torn(i, probe int) {
	c.stats.Torn++
	if c.gets[i].again++; c.gets[i].again > patience {
		c.wait(i)
		return
	}
	c.look(i, probe)
}

// wait lets a call end a GET.
func (c *Client) wait(i int) { c.waiting |= 1 << i }

func (c *Client) ask(i int) {
	g := &c.gets[i]
	err := c.calls.Send(&rfp.Call{Kind: jakiro.Get, Body: g.key[:g.size], Done: g.asked})
	if err == nil {
		c.waiting &^= 1 << i
		c.stats.Asked++
	}
}

// end ends a GET.
func (c *Client) end(i int, value []byte, found bool, err error) {
	g := &c.gets[i]
	done := g.done
	if done == nil {
		return
	}
	g.done = nil
	c.free |= 1 << i
	c.stats.Gets++
	done(g.tag, value, found, err)
}

// Close ends all GETs with ErrClosed, and both links.
func (c *Client) Close() error {
	c.fail(onesided.ErrClosed)
	return nil
}

// fail ends everything, once.
func (c *Client) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	_ = c.link.Close()
	_ = c.calls.Close()
	for i := range c.gets {
		c.end(i, nil, false, err)
	}
}
