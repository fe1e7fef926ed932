package rfp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// rig is a server and clients on the model, a thread each.
type rig struct {
	t       testing.TB
	net     *model.Network
	server  *Server
	machine *model.Machine
	thread  *model.Thread
	work    time.Duration // of a message at the server
	ran     map[uint64]int
	clients []*rigClient
	current *Message
}

type rigClient struct {
	*Client
	link   *model.Link
	other  *model.Link
	thread *model.Thread
	m      *model.Machine
	every  func() // called by its thread before it polls
}

var small = Geometry{Slots: 4, Request: 256, Response: 1024}

func newRig(t testing.TB, p model.Params, seed uint64, cfg ServerConfig) *rig {
	r := &rig{t: t, net: model.New(p, seed), ran: map[uint64]int{}}
	if cfg.Slots == 0 {
		cfg.Geometry = small
	}
	cfg.Clock = func() Time { return r.thread.Clock() }
	var err error
	if r.server, err = NewServer(cfg); err != nil {
		t.Fatal(err)
	}
	r.machine = r.net.Machine(p.Server)
	r.thread = r.machine.Thread(func(Time) time.Duration {
		if r.current != nil {
			r.server.Answer(r.current)
			r.current = nil
		}
		if r.current = r.server.Next(); r.current == nil {
			return 0
		}
		r.thread.Spend(r.work)
		return max(r.work, 1)
	})
	r.server.Handle(1, r.echo)
	r.server.Handle(2, func(req, resp []byte) ([]byte, error) { return nil, errors.New("no luck") })
	return r
}

// echo returns 8 bytes of number, then as many bytes as the request says.
func (r *rig) echo(req, resp []byte) ([]byte, error) {
	id := binary.LittleEndian.Uint64(req)
	r.ran[id]++
	n := int(binary.LittleEndian.Uint32(req[8:]))
	resp = append(resp, req[:8]...)
	for i := range n {
		resp = append(resp, byte(id)+byte(i))
	}
	return resp, nil
}

func request(id uint64, n int) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, id), uint32(n))
}

func checkEcho(resp []byte, id uint64, n int) error {
	if len(resp) != 8+n || binary.LittleEndian.Uint64(resp) != id {
		return fmt.Errorf("call %d: answer of %d bytes, want %d", id, len(resp), 8+n)
	}
	for i, b := range resp[8:] {
		if b != byte(id)+byte(i) {
			return fmt.Errorf("call %d: byte %d is wrong", id, i)
		}
	}
	return nil
}

func (r *rig) dial(cfg Config) *rigClient {
	r.t.Helper()
	if cfg.Slots == 0 {
		cfg.Geometry = small
	}
	c := &rigClient{m: r.net.Machine(r.net.Params().Client), every: func() {}}
	var err error
	if c.link, c.other, err = model.Connect(c.m, r.machine, ClientSpecs(cfg.Geometry),
		ServerSpecs(r.server.cfg.Geometry)); err != nil {
		r.t.Fatal(err)
	}
	if c.Client, err = NewClient(c.link, cfg); err != nil {
		r.t.Fatal(err)
	}
	if err := r.server.Serve(c.other); err != nil {
		r.t.Fatal(err)
	}
	c.other.Bind(r.thread)
	c.thread = c.m.Thread(func(now Time) time.Duration {
		c.Poll(now)
		c.every()
		c.Poll(now)
		at := c.NextWake()
		if at == never {
			return 0
		}
		return max(at.Sub(now), 1)
	})
	c.link.Bind(c.thread)
	c.thread.Wake()
	r.clients = append(r.clients, c)
	return c
}

// until runs the network until a condition holds.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for range 5_000_000 {
		if cond() {
			return
		}
		if !r.net.Step() {
			break
		}
	}
	if !cond() {
		r.t.Fatalf("no %s", what)
	}
}

// load lets a client make n calls, a few at a time, and checks each.
type load struct {
	n, window    int
	begun, ended int
	failed       int
	size         func(i int) int
	ends         map[uint64]int
	deadline     time.Duration
	first        uint64
	latency      time.Duration
	sentAt       map[uint64]Time
	lastErr      error
}

func (r *rig) start(c *rigClient, l *load) {
	l.ends, l.sentAt = map[uint64]int{}, map[uint64]Time{}
	if l.size == nil {
		l.size = func(int) int { return 32 }
	}
	c.every = func() {
		for l.begun < l.n && l.begun-l.ended < l.window && c.Ready() {
			id, n := l.first+uint64(l.begun), l.size(l.begun)
			q := Call{Kind: 1, Body: request(id, n), Tag: id, Done: func(tag uint64, resp []byte,
				err error) {
				l.ended++
				l.ends[tag]++
				l.latency += r.net.Now().Sub(l.sentAt[tag])
				if err == nil {
					err = checkEcho(resp, tag, n)
					if err != nil {
						r.t.Error(err)
					}
				} else {
					l.failed++
					l.lastErr = err
				}
				c.thread.Wake()
			}}
			if l.deadline != 0 {
				q.Deadline = r.net.Now().Add(l.deadline)
			}
			err := c.Send(&q)
			if errors.Is(err, ErrBusy) {
				return
			}
			if err != nil {
				r.t.Fatal(err)
			}
			l.sentAt[id] = r.net.Now()
			l.begun++
		}
	}
	c.thread.Wake()
}

func (r *rig) check(l *load) {
	r.t.Helper()
	for id, n := range l.ends {
		if n != 1 {
			r.t.Errorf("call %d ended %d times", id, n)
		}
	}
	for id, n := range r.ran {
		if n != 1 {
			r.t.Errorf("call %d ran %d times", id, n)
		}
	}
}

// configs are the ways of clients that most tests go through.
func configs() map[string]Config {
	return map[string]Config{
		"hybrid": {}, "paper": {Paper: true}, "fetch": {Mode: Fetch}, "reply": {Mode: Reply},
		"behind": {First: Behind}, "after": {First: After}, "F24": {F: 24}, "F1024": {F: 1024},
		"sum": {Checksum: true},
	}
}

func TestCalls(t *testing.T) {
	for name, cfg := range configs() {
		for _, torn := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/torn=%v", name, torn), func(t *testing.T) {
				r := newRig(t, model.Paper(), 1, ServerConfig{Checksum: cfg.Checksum})
				if torn {
					r.net.Tear()
				}
				l := &load{n: 500, window: 4, size: func(i int) int { return i * 7 % 900 }}
				c := r.dial(cfg)
				r.start(c, l)
				r.until("end of all calls", func() bool { return l.ended == l.n })
				r.check(l)
				if l.failed > 0 {
					t.Errorf("%d calls failed: %v", l.failed, l.lastErr)
				}
				if !c.Idle() {
					t.Error("something is left over")
				}
				t.Logf("%+v, mean latency %v", c.Stats(), l.latency/time.Duration(l.n))
			})
		}
	}
}

func TestBatches(t *testing.T) {
	for name, cfg := range configs() {
		t.Run(name, func(t *testing.T) {
			cfg.Geometry = Geometry{Slots: 2, Request: 1024, Response: 4096}
			cfg.Batch = 16
			r := newRig(t, model.Paper(), 1, ServerConfig{Geometry: cfg.Geometry, Checksum: cfg.Checksum})
			l := &load{n: 1000, window: 32, size: func(i int) int { return i % 64 }}
			c := r.dial(cfg)
			r.start(c, l)
			r.until("end of all calls", func() bool { return l.ended == l.n })
			r.check(l)
			if st := c.Stats(); l.failed > 0 || st.Messages > 200 {
				t.Errorf("%d calls failed (%v), %d messages", l.failed, l.lastErr, st.Messages)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	r := newRig(t, model.Paper(), 1, ServerConfig{})
	c := r.dial(Config{})
	r.until("server", c.Ready)
	got := map[uint64]error{}
	send := func(kind uint8, tag uint64, body []byte) {
		if err := c.Send(&Call{Kind: kind, Tag: tag, Body: body,
			Done: func(tag uint64, _ []byte, err error) { got[tag] = err }}); err != nil {
			t.Fatal(err)
		}
	}
	send(7, 1, nil)
	send(2, 2, nil)
	send(1, 3, request(3, 5000))
	c.thread.Wake()
	r.until("answers", func() bool { return len(got) == 3 })
	if !errors.Is(got[1],
		ErrNoHandler) || got[2] != RemoteError("no luck") || !errors.Is(got[3], ErrTooLarge) {
		t.Errorf("%v", got)
	}
	if err := c.Send(&Call{Kind: 1, Body: make([]byte, 300)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}

func TestConfig(t *testing.T) {
	for i, c := range []Config{
		{}, {Geometry: Geometry{65, 64, 64}}, {Geometry: Geometry{1, 1 << 24, 64}},
		{Geometry: Geometry{1, 64, 0}},
		{Geometry: Geometry{64, 1<<24 - 1, 64}},
		{Geometry: small, F: 8}, {Geometry: small, F: -1}, {Geometry: small, R: -1},
		{Geometry: small, R: MaxR + 1}, {Geometry: small, Mode: 9}, {Geometry: small, First: 9},
		{Geometry: small, Batch: 65}, {Geometry: small, Batch: -1}, {Geometry: small, BatchBytes: 300},
		{Geometry: small, SwitchAfter: -1}, {Geometry: small, SwitchTime: 1, BackTime: 2},
		{Geometry: small, Tolerance: 2}, {Geometry: small, Wait: -1},
	} {
		if err := c.fill(); !errors.Is(err, ErrConfig) {
			t.Errorf("%d: %+v: %v, want ErrConfig", i, c, err)
		}
	}
}
