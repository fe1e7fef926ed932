package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/rfp/jakiro/bypass"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	oneshm "github.com/userspace-rpc/erpc/rfp/onesided/shm"
)

// driver is the client's side of a row.
type driver interface {
	send(get bool, i uint64) (sent bool, err error) // a call for key i; false: no room now
	poll(now rfp.Time) error
	open() int     // calls under way
	ended() uint64 // calls that have ended well
	close() error
}

// client makes the calls of all rows.
type client struct {
	workload
	gets    float64
	rng     *rand.Rand
	drivers []driver
	err     error
}

func newClient(w workload, gets float64, addrs []string) (c *client, err error) {
	c = &client{workload: w, gets: gets, rng: rand.New(rand.NewPCG(1, 2))}
	for i, r := range w.rows() {
		var d driver
		switch r.kind {
		case kindRfp:
			d, err = w.dialRfp(i, &r)
		case kindBypass:
			d, err = w.dialBypass(i, &r)
		case kindErpc:
			d, err = w.dialErpc(addrs[i], r.slots)
		case kindHerd:
			d, err = w.dialHerd(addrs[i], r.slots)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", r.name, err), c.end())
		}
		c.drivers = append(c.drivers, d)
	}
	return c, nil
}

func (c *client) end() (err error) {
	for _, d := range c.drivers {
		err = errors.Join(err, d.close())
	}
	return err
}

func (c *client) total() (n uint64) {
	for _, d := range c.drivers {
		n += d.ended()
	}
	return n
}

// stuck is when a row counts as standing still.
const stuck = time.Minute

// run makes calls for some time, waits for all of them, and returns the nanoseconds of one.
func (c *client) run(i int, each time.Duration) float64 {
	d := c.drivers[i]
	before := d.ended()
	begin := monotime.Now()
	until, limit := begin.Add(stuck), begin.Add(stuck)
	now := begin
	warm := false
	for !warm || now < until || d.open() > 0 {
		for now < until {
			sent, err := d.send(c.rng.Float64() < c.gets, c.rng.Uint64N(uint64(c.Keys)))
			if err != nil {
				c.err = err
				return 0
			}
			if !sent {
				break
			}
		}
		now = monotime.Now()
		got := d.ended()
		if err := d.poll(now); err != nil {
			c.err = err
			return 0
		}
		if c.rdma() && d.ended() == got {
			sys.Yield()
		}
		if !warm && d.ended() > before { // the server has noticed whose turn it is
			warm, begin, before = true, now, d.ended()
			until, limit = now.Add(each), now.Add(each+stuck)
		}
		if now > limit && d.open() > 0 {
			c.err = fmt.Errorf("%d calls got no answer within %v", d.open(), stuck)
			return 0
		}
		if runtime.NumCPU() < 2 {
			runtime.Gosched()
		}
	}
	return float64(now.Sub(begin)) / float64(max(d.ended()-before, 1))
}

// checker checks answers. A wrong one ends the run.
type checker struct {
	w     *workload
	begun int
	n     uint64
	err   error
}

func (k *checker) open() int     { return k.begun }
func (k *checker) ended() uint64 { return k.n }

// got is the end of a GET of key i.
func (k *checker) got(i uint64, value []byte, found bool, err error) {
	if err == nil && (!found || !right(value, i, k.w.Value)) {
		err = fmt.Errorf("wrong answer to a GET of key %d: %x (found %v), must be its %d bytes",
			i, value, found, k.w.Value)
	}
	k.done(err)
}

func (k *checker) done(err error) {
	k.begun--
	k.n++
	if err != nil {
		k.err = errors.Join(k.err, err)
		k.n--
	}
}

// putTag marks the tag of a PUT.
const putTag = 1 << 63

// answer is the end of a call.
func (k *checker) answer(tag uint64, resp []byte, err error) {
	switch {
	case err == nil && tag&putTag != 0 && (len(resp) != 1 || resp[0] != 1):
		k.done(fmt.Errorf("wrong answer to a PUT: %x, must be 01", resp))
	case tag&putTag != 0:
		k.done(err)
	default:
		value, found := jakiro.Value(resp)
		k.got(tag, value, found, err)
	}
}

// rfpDriver makes calls that are fetched or replied to.
type rfpDriver struct {
	checker
	c    *rfp.Client
	kb   [keyBytes]byte
	buf  []byte
	val  []byte
	call rfp.Call
}

// dial joins the server's link of a row.
func (w *workload) dial(i, part int, own, peer []onesided.Spec) (onesided.Link, error) {
	if w.rdma() {
		return w.dialRc(w.socket(i, part), own, peer)
	}
	return oneshm.Dial(w.socket(i, part), own, peer)
}

func (w *workload) dialRfp(i int, r *row) (*rfpDriver, error) {
	g := r.geometry(w.Value)
	l, err := w.dial(i, 0, rfp.ClientSpecs(g), rfp.ServerSpecs(g))
	if err != nil {
		return nil, err
	}
	if r.blind {
		l = blind{l}
	}
	cfg := r.cfg
	cfg.Geometry = g
	c, err := rfp.NewClient(l, cfg)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	d := &rfpDriver{checker: checker{w: w}, c: c}
	d.call.Done = d.answer
	return d, nil
}

func (d *rfpDriver) send(get bool, i uint64) (bool, error) {
	if !d.c.Ready() {
		return false, nil
	}
	k := key(&d.kb, i)
	d.call.Kind, d.call.Body, d.call.Tag = jakiro.Get, k, i
	if !get {
		d.val = appendValue(d.val[:0], i, d.w.Value)
		d.buf = jakiro.AppendPut(d.buf[:0], k, d.val)
		d.call.Kind, d.call.Body, d.call.Tag = jakiro.Put, d.buf, i|putTag
	}
	err := d.c.Send(&d.call)
	if errors.Is(err, rfp.ErrBusy) {
		return false, nil
	}
	if err == nil {
		d.begun++
	}
	return err == nil, err
}

func (d *rfpDriver) poll(now rfp.Time) error {
	d.c.Poll(now)
	return errors.Join(d.err, d.c.Err())
}

func (d *rfpDriver) close() error { return d.c.Close() }

// bypassDriver GETs by READs, and PUTs by calls.
type bypassDriver struct {
	rfpDriver
	b *bypass.Client
}

func (w *workload) dialBypass(i int, r *row) (*bypassDriver, error) {
	l := w.layout()
	link, err := w.dial(i, 1, l.ClientSpecs(r.slots), l.Specs())
	if err != nil {
		return nil, err
	}
	calls, err := w.dialRfp(i, r)
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	b, err := bypass.NewClient(l, link, calls.c, r.slots)
	if err != nil {
		return nil, errors.Join(err, link.Close(), calls.close())
	}
	d := &bypassDriver{*calls, b}
	d.call.Done = d.answer
	return d, nil
}

func (d *bypassDriver) send(get bool, i uint64) (bool, error) {
	if !get {
		return d.rfpDriver.send(false, i)
	}
	if !d.b.Ready() {
		return false, nil
	}
	err := d.b.Get(key(&d.kb, i), i, d.got)
	if err == nil {
		d.begun++
	}
	return err == nil, err
}

func (d *bypassDriver) poll(now rfp.Time) error {
	d.b.Poll(now)
	return errors.Join(d.err, d.b.Err())
}

func (d *bypassDriver) close() error { return d.b.Close() }
