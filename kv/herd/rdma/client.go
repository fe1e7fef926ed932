package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kv/herd"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// ClientConfig describes a client.
type ClientConfig struct {
	Design Design // default Herd
	// Device is the device's name; "": the one that has the address from which the server is
	// reached, or the first.
	Device string
	Timing herd.Timing
	// Backlog is how many operations may wait for a slot; default 65,536.
	Backlog int
}

// Result is the end of an operation. Errors are those of the partition (package mica), that of a
// herd.Refusal, herd.ErrTimeout, ErrPeer and ErrClosed.
type Result = message.Result

// Done is called by Poll when an operation ends. It may start others.
type Done = message.Done

// Client does operations at one server. One goroutine at a time uses it, and calls Poll often:
// nothing moves otherwise.
type Client struct {
	cfg     ClientConfig
	g       herd.Geometry
	number  int
	conn    net.Conn
	gone    atomic.Bool // the connection has ended
	dev     *device
	memory  *verbs.MR // frames
	frames  []byte
	replies []byte // design write
	window  *herd.Window
	queue   *queue // for requests
	ud      *queue // for answers
	ring    *ring
	offer   offer
	ah      *verbs.AH // design send
	list    []verbs.SendWR
	ops     []operation
	free    []uint32
	backlog [][]waiting // by partition
	behind  int         // in the backlog
	over    uint64      // operations that ended
	err     error
	ended   func(herd.Done)
	rest    rest
	body    []byte
}

// operation is one under way.
type operation struct {
	done Done
	tag  uint64
	typ  uint8
}

// waiting is an operation without a slot.
type waiting struct {
	op   uint32
	body []byte
}

// Dial meets a server. Errors: ErrDesign, ErrHello, ErrMismatch, ErrRefused, herd.ErrConfig,
// *verbs.MissingError, *verbs.Error, those of net.
func Dial(ctx context.Context, addr string, cfg ClientConfig) (c *Client, err error) {
	if cfg.Design == "" {
		cfg.Design = Herd
	}
	if cfg.Backlog == 0 {
		cfg.Backlog = 1 << 16
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c = &Client{cfg: cfg, conn: conn}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err = c.meet(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", addr, err), c.release())
	}
	c.ended = c.finish
	go c.watch()
	return c, nil
}

// near returns the own address of a connection, unless the peer is on the same machine: there it
// says nothing.
func near(conn net.Conn) netip.Addr {
	own, far := hostOf(conn.LocalAddr()), hostOf(conn.RemoteAddr())
	if own == far {
		return netip.Addr{}
	}
	return own
}

// meet makes queue pairs and memory, and connects them with the server's.
func (c *Client) meet() (err error) {
	if c.dev, err = openDevice(c.cfg.Device, near(c.conn)); err != nil {
		return err
	}
	h := hello{place: placeOf(&c.dev.site), Design: c.cfg.Design}
	h.PSN, h.QKey = random(24), random(31)
	// The sizes come with the offer, and memory for replies is in the hello: so it is for the
	// largest window and slots of this design.
	if err = c.queues(&h); err != nil {
		return err
	}
	if err = say(c.conn, &h); err != nil {
		return err
	}
	if err = hear(c.conn, &c.offer); err != nil {
		return err
	}
	o := &c.offer
	gid, g, err := o.check(&c.dev.site, c.cfg.Design)
	if err != nil {
		return err
	}
	if c.cfg.Design == Write && g.Chunk() > len(c.replies) {
		return fmt.Errorf("%w: answers take %d bytes, at most %d", ErrMismatch,
			g.Chunk(), len(c.replies))
	}
	c.g, c.number = g, o.Number
	if c.frames, c.memory, err = c.dev.memory(c.dev.pd, g.Chunk(), verbs.LocalWrite); err != nil {
		return err
	}
	if c.window, err = herd.NewWindow(g, c.frames, c.cfg.Timing); err != nil {
		return err
	}
	c.backlog = make([][]waiting, g.Partitions)
	if c.ud != nil {
		// Twice the window: repeated answers take buffers too.
		if c.ring, err = c.dev.newRing(c.ud, min(2*g.Slots(), maxRecvs), g.Slot); err != nil {
			return err
		}
	}
	way := c.dev.site.Way(gid, o.LID)
	if c.cfg.Design == Send {
		c.ah, err = c.dev.pd.CreateAH(way)
		if err == nil {
			c.dev.keep(c.ah)
		}
		return err
	}
	return c.queue.qp.Connect(&verbs.Link{To: way, QPN: o.QPN, PSN: h.PSN, PeerPSN: o.PSN,
		MTU: min(o.MTU, c.dev.site.Attr.ActiveMTU), Access: verbs.RemoteWrite})
}

const (
	maxRecvs   = 4096
	maxReplies = 256 << 10 // bytes: 64 slots of 4 KiB, 256 of 1 KiB
)

// queues makes the queue pairs that the hello names.
func (c *Client) queues(h *hello) (err error) {
	d := c.dev
	if c.cfg.Design == Write {
		mem, mr, err := d.memory(d.pd, maxReplies, verbs.LocalWrite|verbs.RemoteWrite)
		if err != nil {
			return err
		}
		c.replies, h.Base, h.RKey = mem, mr.Base(), mr.RKey()
	} else {
		if c.ud, err = d.newQueue(d.pd, verbs.UD, maxRecvs); err != nil {
			return err
		}
		if err = c.ud.qp.Open(d.site.Port, h.QKey); err != nil {
			return err
		}
		h.UD, c.queue = c.ud.qp.Num(), c.ud
	}
	switch c.cfg.Design {
	case Herd:
		c.queue, err = d.newQueue(d.pd, verbs.UC, 1)
	case Write:
		c.queue, err = d.newQueue(d.pd, verbs.RC, 1)
	case Send:
		return nil
	default:
		return fmt.Errorf("%w: %q", ErrDesign, c.cfg.Design)
	}
	if err == nil {
		h.QPN = c.queue.qp.Num()
	}
	return err
}

// watch notes that the server has gone.
func (c *Client) watch() {
	var one [1]byte
	_, _ = c.conn.Read(one[:]) // it returns when the connection ends; the server says no more
	c.gone.Store(true)
}

func (c *Client) release() error {
	err := c.conn.Close()
	if c.dev != nil {
		err = errors.Join(err, c.dev.close())
	}
	return err
}

// Close ends the client. Operations under way end with ErrClosed, and may have run.
func (c *Client) Close() error {
	if c.err == ErrClosed {
		return nil
	}
	c.fail(ErrClosed)
	c.err = ErrClosed
	return c.release()
}

// fail ends all operations with an error, and refuses those to come.
func (c *Client) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.window.Fail(err, c.ended)
	for part, list := range c.backlog {
		c.backlog[part] = nil
		for _, w := range list {
			c.behind--
			c.finish(herd.Done{Tag: uint64(w.op), Err: err})
		}
	}
}

// Geometry returns the sizes that the server has chosen.
func (c *Client) Geometry() herd.Geometry { return c.g }

// Counts returns what the window counts.
func (c *Client) Counts() herd.Counts { return c.window.Counts() }

// Pending returns how many operations are under way or wait.
func (c *Client) Pending() int { return len(c.ops) - len(c.free) }

// Err returns why nothing can be started any more, or nil.
func (c *Client) Err() error { return c.err }

// Get asks for the item of key. Errors of this and the following methods: mica.ErrKey,
// mica.ErrValue, herd.ErrTooBig, herd.ErrBusy if too many operations wait, and Err; then done is
// not called.
func (c *Client) Get(key []byte, tag uint64, done Done) error {
	return c.keyed(&message.Keyed{Key: key}, message.Get, tag, done)
}

// Delete removes a key.
func (c *Client) Delete(key []byte, tag uint64, done Done) error {
	return c.keyed(&message.Keyed{Key: key}, message.Delete, tag, done)
}

// Increment adds to a value that is a decimal number.
func (c *Client) Increment(key []byte, delta uint64, tag uint64, done Done) error {
	return c.keyed(&message.Keyed{Key: key, Delta: delta}, message.Increment, tag, done)
}

func (c *Client) keyed(k *message.Keyed, typ uint8, tag uint64, done Done) (err error) {
	k.Hash = mica.Hash(k.Key)
	if c.body, err = k.Append(c.body[:0], typ); err != nil {
		return err
	}
	return c.start(typ, k.Hash, tag, done)
}

// Put stores a value for good; the Result has its version.
func (c *Client) Put(key, value []byte, tag uint64, done Done) error {
	return c.Write(&message.Item{Key: key, Value: value}, tag, done)
}

// Write stores an item, whose Hash is set here; the Result has its version.
func (c *Client) Write(w *message.Item, tag uint64, done Done) (err error) {
	w.Hash = mica.Hash(w.Key)
	if c.body, err = w.Append(c.body[:0]); err != nil {
		return err
	}
	return c.start(message.Write, w.Hash, tag, done)
}

// start sends the request in c.body, or has it wait for a slot.
func (c *Client) start(typ uint8, hash uint64, tag uint64, done Done) error {
	if c.err != nil {
		return c.err
	}
	part := mica.PartitionOf(hash, c.g.Partitions)
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.ops)))
		c.ops = append(c.ops, operation{})
	}
	i := c.free[len(c.free)-1]
	err := herd.ErrBusy
	if len(c.backlog[part]) == 0 {
		err = c.window.Start(part, typ, c.body, uint64(i), monotime.Now())
	}
	if err == herd.ErrBusy && c.behind < c.cfg.Backlog && len(c.body) <= c.g.Body() {
		c.backlog[part] = append(c.backlog[part], waiting{i, append([]byte(nil), c.body...)})
		c.behind++
		err = nil
	}
	if err != nil {
		return err
	}
	c.free = c.free[:len(c.free)-1]
	c.ops[i] = operation{done, tag, typ}
	return nil
}

// finish gives the result of an operation to its Done.
func (c *Client) finish(d herd.Done) {
	c.over++
	o := c.ops[d.Tag]
	c.ops[d.Tag] = operation{}
	c.free = append(c.free, uint32(d.Tag))
	r := Result{Tag: o.tag, Err: d.Err}
	if d.Err == nil {
		switch o.typ {
		case message.Get:
			r.Value, r.Err = message.ParseFound(d.Body)
		case message.Write:
			var n [1]uint64
			r.Err = message.ParseNumbers(d.Body, n[:])
			r.Version = n[0]
		case message.Increment:
			var n [2]uint64
			r.Err = message.ParseNumbers(d.Body, n[:])
			r.Number, r.Version = n[0], n[1]
		default:
			r.Err = message.ParseNumbers(d.Body, nil)
		}
	}
	o.done(r)
}
