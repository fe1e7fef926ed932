package rfplab

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/adaptive"
	"github.com/userspace-rpc/erpc/rfp/jakiro"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// clientThread makes calls in a closed loop: messages to a server that it draws, so many under way.
type clientThread struct {
	l      *lab
	id     int
	m      *model.Machine
	th     *model.Thread
	rng    *rand.Rand
	ways   [][]*rfp.Client // by way and server
	out    int             // messages under way
	begun  []message
	choose *adaptive.Chooser
	buf    []byte
	want   []byte
}

// message is a message under way, for which its client waits.
type message struct {
	at    model.Time
	left  int
	way   int
	calls int
	used  bool
}

func (l *lab) addClient(m *model.Machine, id int) error {
	c := &clientThread{l: l, id: id, m: m, rng: rand.New(rand.NewPCG(l.Seed, uint64(id)+100)),
		begun: make([]message, l.Outstanding)}
	c.th = m.Thread(c.step)
	links := []Design{l.Design}
	if l.Adaptive {
		c.choose, links = adaptive.NewChooser(ways, l.Seed<<16+uint64(id)), []Design{RC, ERPC}
	}
	for _, d := range links {
		var way []*rfp.Client
		for _, s := range l.servers {
			k, err := c.dial(s, d)
			if err != nil {
				return err
			}
			way = append(way, k)
		}
		c.ways = append(c.ways, way)
	}
	l.clients = append(l.clients, c)
	c.th.Wake()
	return nil
}

// dial joins a server's thread.
func (c *clientThread) dial(s *serverThread, d Design) (*rfp.Client, error) {
	g := c.l.Config.Geometry
	x, y, err := model.Connect(c.m, c.l.server, rfp.ClientSpecs(g), rfp.ServerSpecs(g))
	if err != nil {
		return nil, err
	}
	if err := s.srv.Serve(y); err != nil {
		return nil, err
	}
	y.Bind(s.th)
	x.Bind(c.th)
	cfg := c.l.Config
	if d != RC {
		y.Datagrams()
		cfg.Mode = rfp.Reply
	}
	if d == ERPC {
		x.Datagrams()
	}
	return rfp.NewClient(x, cfg)
}

// step polls, and begins messages.
func (c *clientThread) step(now model.Time) time.Duration {
	next := model.Time(math.MaxInt64)
	ready := true
	for _, way := range c.ways {
		for _, k := range way {
			if k.Err() != nil {
				c.l.err = k.Err()
				return 0
			}
			if !k.Idle() || !k.Ready() {
				k.Poll(now)
				ready = ready && k.Ready()
			}
		}
	}
	for ready && c.out < c.l.Outstanding {
		c.begin(now)
	}
	for _, way := range c.ways {
		for _, k := range way {
			if !k.Idle() {
				k.Poll(now)
				next = min(next, k.NextWake())
			}
		}
	}
	if next == math.MaxInt64 {
		return 0
	}
	return max(next.Sub(now), 1)
}

// begin sends a message to a server.
func (c *clientThread) begin(now model.Time) {
	l := c.l
	i := 0
	for c.begun[i].used {
		i++
	}
	key := l.zipf.next(c.rng)
	part := int(mix(key) % uint64(l.Servers))
	if l.Own {
		part = c.id % l.Servers
	}
	m := &c.begun[i]
	*m = message{at: now, used: true}
	if c.choose != nil {
		m.way = c.choose.Next()
	}
	k := c.ways[0][part]
	if c.choose != nil {
		mode := rfp.Fetch
		switch m.way {
		case wayReply:
			mode = rfp.Reply
		case wayERPC:
			k, mode = c.ways[1][part], rfp.Reply
		}
		k.SetMode(jakiro.Get, mode)
		k.SetMode(jakiro.Put, mode)
	}
	c.out++
	for range k.BatchSize() {
		if !c.call(k, part, key/uint64(l.Servers)%keysPerPart, i) {
			break
		}
		key = l.zipf.next(c.rng)
	}
}

// call makes one call of message i.
func (c *clientThread) call(k *rfp.Client, part int, number uint64, i int) bool {
	l := c.l
	var kb [16]byte
	key := l.key(kb[:], part, number)
	c.th.Spend(2 * l.Params.Touch) // written here, and read when it comes back
	q := rfp.Call{Kind: jakiro.Get, Tag: uint64(i)<<32 | uint64(part), Body: key}
	tag := number
	if c.rng.Float64() >= l.Gets {
		q.Kind = jakiro.Put
		q.Body = jakiro.AppendPut(c.buf[:0], key, value(nil, key, l.Value))
	}
	put := q.Kind == jakiro.Put
	q.Done = func(_ uint64, resp []byte, err error) { c.ended(i, part, tag, put, resp, err) }
	if err := k.Send(&q); err != nil {
		if !errors.Is(err, rfp.ErrBusy) {
			l.err = err
		}
		return false
	}
	m := &c.begun[i]
	m.left++
	m.calls++
	return true
}

// ended checks the result of a call.
func (c *clientThread) ended(i, part int, number uint64, put bool, resp []byte, err error) {
	l, m := c.l, &c.begun[i]
	if err == nil {
		v, ok := jakiro.Value(resp)
		if !put {
			var kb [16]byte
			c.want = value(c.want[:0], l.key(kb[:], part, number), l.Value)
			ok = ok && bytes.Equal(v, c.want)
		}
		if !ok {
			err = fmt.Errorf("rfplab: a wrong answer of %d bytes", len(resp))
		}
	}
	if err != nil && l.err == nil {
		l.err = err
	}
	l.ended++
	if m.left--; m.left > 0 {
		return
	}
	took := l.net.Now().Sub(m.at)
	if l.lat != nil {
		l.lat = append(l.lat, took)
	}
	if c.choose != nil {
		c.choose.Ended(m.way, took)
	}
	m.used = false
	c.out--
}
