package simtest

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// cluster is a network with servers and clients.
type cluster struct {
	t       *testing.T
	r       *rand.Rand
	net     *model.Network
	g       rfp.Geometry
	sum     bool
	slow    time.Duration
	servers []*server
	clients []*client
	ran     map[uint64]int
	faults  bool
}

// server is a machine with one thread.
type server struct {
	c       *cluster
	m       *model.Machine
	th      *model.Thread
	srv     *rfp.Server
	current *rfp.Message
	dead    bool
}

// client is a thread with a link to one server.
type client struct {
	c            *cluster
	id           uint64
	to           *server
	k            *rfp.Client
	link, far    *model.Link // both sides
	th           *model.Thread
	n, window    int
	begun, ended int
	deadline     time.Duration
	broken       bool
	ends         map[uint64]int
	got          outcome
}

// Types of requests: an echo of some size, and one that fails.
const (
	echo uint8 = iota + 1
	fails
)

var errHandler = errors.New("as asked")

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// runSeed runs one cluster.
func runSeed(t *testing.T, seed uint64) outcome {
	r := rand.New(rand.NewPCG(seed, 41))
	params := pick(r, model.Paper, model.PipelinedReply, model.Pipelined)()
	c := &cluster{t: t, r: r, net: model.New(params, seed), ran: map[uint64]int{}}
	c.g = rfp.Geometry{Slots: pick(r, 1, 2, 7, 64), Request: pick(r, 64, 256, 2048),
		Response: pick(r, 64, 256, 4096)}
	c.sum, c.faults = r.IntN(3) == 0, r.IntN(3) == 0
	c.slow = pick(r, 0, time.Microsecond, 8*time.Microsecond, 40*time.Microsecond)
	if r.IntN(2) == 0 {
		c.net.Tear()
	}
	for range 1 + r.IntN(3) {
		c.addServer()
	}
	for i := range 1 + r.IntN(6) {
		c.addClient(uint64(i))
	}
	if c.faults {
		c.plan()
	}
	c.run()
	return c.check()
}

func (c *cluster) addServer() {
	r := c.r
	s := &server{c: c, m: c.net.Machine(c.net.Params().Server)}
	cfg := rfp.ServerConfig{Geometry: c.g, Epoch: 1 + r.Uint64N(9), OneAtATime: r.IntN(3) == 0,
		Checksum: c.sum, FirstSequence: pick[uint32](r, 0, 7, 1<<32-3, 1<<31-2),
		Clock: func() model.Time { return s.th.Clock() }}
	var err error
	if s.srv, err = rfp.NewServer(cfg); err != nil {
		c.t.Fatal(err)
	}
	s.srv.Handle(echo, c.echo)
	s.srv.Handle(fails, func([]byte, []byte) ([]byte, error) { return nil, errHandler })
	s.th = s.m.Thread(s.step)
	c.servers = append(c.servers, s)
}

// step answers a message, or takes one and is busy with it.
func (s *server) step(model.Time) time.Duration {
	if s.current != nil {
		s.srv.Answer(s.current)
		s.current = nil
	}
	for range s.c.looks() {
		if s.current = s.srv.Next(); s.current != nil {
			break
		}
	}
	if s.current == nil {
		return 0
	}
	d := time.Duration(1)
	if s.c.slow > 0 {
		d += time.Duration(s.c.net.Rand().Int64N(int64(s.c.slow)))
	}
	s.th.Spend(d)
	return max(s.th.Clock().Sub(s.c.net.Now()), 1)
}

// looks is how often a server looks at its links when it is woken. Real ones look on and on, and so
// find replies that failed without a completion.
func (c *cluster) looks() int {
	if c.faults {
		return 40
	}
	return 1
}

// echo returns the number of the call, and as many bytes as its request has besides.
func (c *cluster) echo(req, resp []byte) ([]byte, error) {
	id := binary.LittleEndian.Uint64(req)
	c.ran[id]++
	resp = append(resp, req[:8]...)
	for i := range req[8:] {
		resp = append(resp, req[8+i]^byte(id))
	}
	return resp, nil
}

func (c *cluster) addClient(id uint64) {
	r := c.r
	k := &client{c: c, id: id, to: pick(r, c.servers...), n: 20 + r.IntN(150), window: 1 + r.IntN(20),
		ends: map[uint64]int{}}
	cfg := rfp.Config{Geometry: c.g, F: pick(r, 0, 24, 64, 4096), R: pick(r, 0, 1, 2, 20),
		Mode: pick(r, rfp.Hybrid, rfp.Hybrid, rfp.Fetch, rfp.Reply), Checksum: c.sum,
		First: pick(r, rfp.Paced, rfp.After, rfp.Behind), Paper: r.IntN(3) == 0,
		SwitchAfter: r.IntN(3), SwitchTime: pick(r, 0, time.Microsecond, 20*time.Microsecond),
		ReplyAbove: pick(r, 0, 100), Batch: min(pick(r, 1, 1, 4, 16), c.g.Request/16, c.g.Response/16),
		Wait: pick(r, 0, 2*time.Microsecond), Limit: pick(r, 0, 0, 5*time.Microsecond)}
	if r.IntN(4) == 0 {
		k.deadline = time.Duration(3000 + r.Int64N(60_000))
	}
	m := c.net.Machine(c.net.Params().Client)
	x, y, err := model.Connect(m, k.to.m, rfp.ClientSpecs(c.g), rfp.ServerSpecs(c.g))
	if err == nil {
		err = k.to.srv.Serve(y)
	}
	if err == nil {
		k.k, err = rfp.NewClient(x, cfg)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	k.link, k.far, k.th = x, y, m.Thread(k.step)
	x.Bind(k.th)
	y.Bind(k.to.th)
	k.th.Wake()
	c.clients = append(c.clients, k)
}

// step polls, and makes calls.
func (k *client) step(now model.Time) time.Duration {
	k.k.Poll(now)
	for k.begun < k.n && k.begun-k.ended < k.window && k.k.Ready() && k.call(now) {
	}
	k.k.Poll(now)
	next := k.k.NextWake()
	if next == 1<<63-1 {
		return 0
	}
	return max(next.Sub(now), 1)
}

// call makes a call. It reports false if there is no room.
func (k *client) call(now model.Time) bool {
	most := min(k.c.g.Request, k.c.g.Response) - rfp.Entry
	id := k.id<<32 | uint64(k.begun)
	body := binary.LittleEndian.AppendUint64(nil, id)
	for range int(id*2654435761) % (min(most, 400) - 8) {
		body = append(body, byte(len(body))+byte(id))
	}
	q := rfp.Call{Kind: echo, Body: body, Tag: id, Done: k.done}
	if id%17 == 3 {
		q.Kind, q.Body = fails, body[:8]
	}
	if k.deadline != 0 {
		q.Deadline = now.Add(k.deadline)
	}
	switch err := k.k.Send(&q); {
	case errors.Is(err, rfp.ErrBusy):
		return false
	case err != nil:
		k.c.t.Errorf("call %x: %v", id, err)
		return false
	}
	k.begun++
	return true
}

// done checks how a call ended.
func (k *client) done(tag uint64, resp []byte, err error) {
	k.ended++
	k.ends[tag]++
	k.got.ended++
	k.th.Wake()
	var remote rfp.RemoteError
	switch {
	case err == nil && tag%17 != 3:
		if len(resp) < 8 || binary.LittleEndian.Uint64(resp) != tag {
			k.c.t.Errorf("call %x: an answer of %d bytes of another", tag, len(resp))
			return
		}
		for i, b := range resp[8:] {
			if b != (byte(8+i)+byte(tag))^byte(tag) {
				k.c.t.Errorf("call %x: byte %d is wrong", tag, i)
				return
			}
		}
	case errors.As(err, &remote) && tag%17 == 3 &&
		strings.HasPrefix(errHandler.Error(), string(remote)):
		k.got.remote++
	case errors.Is(err, rfp.ErrDeadline) && k.deadline != 0:
		k.got.late++
	case errors.Is(err, onesided.ErrPeer) && (k.to.dead || k.broken):
		k.got.gone++
	case errors.Is(err, rfp.ErrTooLarge) && len(resp) == 0: // a batch has filled the response
	default:
		k.c.t.Errorf("call %x: %v, %d bytes", tag, err, len(resp))
	}
}

// plan lets machines die, connections break, and queue pairs go into the error state.
func (c *cluster) plan() {
	for range 1 + c.r.IntN(3) {
		at := c.net.Now().Add(time.Duration(c.r.Int64N(300_000)))
		k := pick(c.r, c.clients...)
		switch c.r.IntN(4) {
		case 0:
			s := pick(c.r, c.servers...)
			c.net.At(at, func() { s.dead = true; s.m.Kill() })
		case 1:
			c.net.At(at, func() { k.broken = true; k.link.Break(onesided.ErrPeer) })
		default:
			side := pick(c.r, k.link, k.far)
			c.net.At(at, func() { k.broken = true; side.BreakQueue(); k.got.queues++ })
		}
	}
}

// run goes on until all calls have ended, or nothing happens any more.
func (c *cluster) run() {
	for range 3_000_000 {
		open := 0
		for _, k := range c.clients {
			if k.ended < k.begun || k.begun < k.n && k.k.Err() == nil {
				open++
			}
		}
		if open == 0 || !c.net.Step() {
			return
		}
	}
}

// check holds what must hold at the end.
func (c *cluster) check() (sum outcome) {
	for _, k := range c.clients {
		whole := k.begun == k.n || k.k.Err() != nil
		if !whole || k.ended != k.begun || len(k.ends) != k.begun {
			c.t.Errorf("client %d: %d calls of %d, %d ended; %v", k.id, k.begun, k.n, k.ended, k.k.Err())
		}
		for tag, n := range k.ends {
			if n != 1 {
				c.t.Errorf("call %x ended %d times", tag, n)
			}
		}
		st := k.k.Stats()
		k.got.replies, k.got.missed, k.got.rests = st.Replies, st.Missed, st.Rests
		k.got.asked, k.got.switches = st.Asked, st.ToReply+st.ToFetch
		if st.Calls > st.Messages {
			k.got.batches = st.Calls - st.Messages
		}
		sum.add(k.got)
	}
	for id, n := range c.ran {
		if n != 1 {
			c.t.Errorf("call %x ran %d times", id, n)
		}
	}
	sum.at = int64(c.net.Now())
	return sum
}
