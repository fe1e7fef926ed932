package rfp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// manual is a side of a link whose operations take place one at a time, when a test says so. They
// read and write memory at that moment, and not when they were posted.
type manual struct {
	mem   [][]byte
	specs []onesided.Spec
	peer  *manual
	queue []onesided.Op
	done  []onesided.Completion
	err   error
	fresh bool // something came that the owner has not polled for
	full  bool // takes no operations
	near  bool // has windows
	// broken is the end of the adapter's queue: it carries nothing out any more, and Poll learns of
	// that if operations were posted. Memory and Err show nothing before.
	broken error
}

func manualPair(a, b []onesided.Spec) (x, y *manual) {
	side := func(specs []onesided.Spec) *manual {
		m := &manual{specs: specs, fresh: true}
		for _, s := range specs {
			m.mem = append(m.mem, onesided.Memory(s.Size))
		}
		return m
	}
	x, y = side(a), side(b)
	x.peer, y.peer = y, x
	return x, y
}

func (m *manual) Region(i int) []byte   { return m.mem[i] }
func (m *manual) Peer() []onesided.Spec { return m.peer.specs }
func (m *manual) View(int) []byte       { return nil }
func (m *manual) Err() error            { return m.err }

func (m *manual) Window(i int) []byte {
	if !m.near {
		return nil
	}
	return m.peer.mem[i]
}

func (m *manual) Close() error {
	m.err = onesided.ErrClosed
	if m.peer.err == nil {
		m.peer.err = onesided.ErrPeer
	}
	return nil
}

func (m *manual) Post(b *onesided.Batch) error {
	for i := range b.Ops {
		if err := b.Ops[i].Check(m.specs, m.peer.specs); err != nil {
			return err
		}
	}
	if m.full {
		return onesided.ErrFull
	}
	m.queue = append(m.queue, b.Ops...)
	return nil
}

func (m *manual) Poll(list []onesided.Completion) int {
	if m.broken != nil && len(m.queue) > 0 {
		m.err, m.queue = m.broken, nil
	}
	n := copy(list, m.done)
	m.done = append(m.done[:0], m.done[n:]...)
	return n
}

// take carries the oldest operation out.
func (m *manual) take() {
	op := m.queue[0]
	m.queue = m.queue[1:]
	here := m.mem[op.Local][op.At : op.At+op.Size]
	there := m.peer.mem[op.Remote][op.To : op.To+op.Size]
	if op.Read {
		copy(here, there)
	} else {
		onesided.Copy(there, here)
		m.peer.fresh = true
	}
	if op.Signal {
		m.done = append(m.done, onesided.Completion{ID: op.ID})
		m.fresh = true
	}
}

// world is a client and a server whose steps a test orders.
type world struct {
	c       *Client
	s       *Server
	x, y    *manual
	current *Message
	want    int // calls
	sent    int
	ended   []int
	ran     []int
	bad     error
}

func newWorld(cfg Config, calls int) *world { return worldOf(cfg, calls, false) }

// worldOf makes one whose server stores replies in place, if near.
func worldOf(cfg Config, calls int, near bool) *world {
	cfg.Geometry = Geometry{Slots: 2, Request: 64, Response: 64}
	w := &world{want: calls, ended: make([]int, calls), ran: make([]int, calls)}
	w.x, w.y = manualPair(ClientSpecs(cfg.Geometry), ServerSpecs(cfg.Geometry))
	w.y.near = near
	var err error
	if w.s, err = NewServer(ServerConfig{Geometry: cfg.Geometry, Epoch: 1}); err != nil {
		panic(err)
	}
	w.s.Handle(1, func(req, resp []byte) ([]byte, error) {
		w.ran[req[0]]++
		return append(resp, req[0], req[0]^0x5a), nil
	})
	if err = w.s.Serve(w.y); err != nil {
		panic(err)
	}
	if w.c, err = NewClient(w.x, cfg); err != nil {
		panic(err)
	}
	w.c.Poll(1)
	w.x.take() // the control block
	w.c.Poll(1)
	w.x.fresh = true
	return w
}

// send makes as many calls as there is room for.
func (w *world) send() {
	for w.sent < w.want && w.c.Ready() {
		id := byte(w.sent)
		err := w.c.Send(&Call{Kind: 1, Body: []byte{id}, Tag: uint64(id),
			Done: func(tag uint64, resp []byte, err error) {
				w.ended[tag]++
				if err != nil || len(resp) != 2 || resp[0] != byte(tag) || resp[1] != byte(tag)^0x5a {
					w.bad = fmt.Errorf("call %d: %x, %v", tag, resp, err)
				}
			}})
		if err != nil {
			w.bad = err
			return
		}
		w.sent++
		w.c.Poll(1) // a message for each call
	}
}

// Steps of a world.
const (
	stepClient  = iota // the client polls
	stepServer         // the server takes a message, or answers the one that it has taken
	stepToPeer         // an operation of the client takes place
	stepToHere         // one of the server
	stepsOfKind        // how many kinds there are
)

// possible lists the steps that can change something.
func (w *world) possible(list []int) []int {
	if w.x.fresh {
		list = append(list, stepClient)
	}
	if w.y.fresh || w.current != nil {
		list = append(list, stepServer)
	}
	if len(w.x.queue) > 0 {
		list = append(list, stepToPeer)
	}
	if len(w.y.queue) > 0 {
		list = append(list, stepToHere)
	}
	return list
}

func (w *world) step(kind int) {
	switch kind {
	case stepClient:
		w.x.fresh = false
		w.c.Poll(1)
		w.send()
	case stepServer:
		if w.current != nil {
			w.s.Answer(w.current)
			w.current = nil
			w.x.fresh = w.x.fresh || w.y.near // it may have stored a reply
			return
		}
		if w.current = w.s.Next(); w.current == nil {
			w.y.fresh = false
		}
	case stepToPeer:
		w.x.take()
	case stepToHere:
		w.y.take()
	}
}

// check says what is wrong when nothing can happen any more.
func (w *world) check() error {
	if w.bad != nil {
		return w.bad
	}
	if w.c.Err() != nil {
		return w.c.Err()
	}
	for i := range w.want {
		if w.ended[i] != 1 || w.ran[i] != 1 {
			return fmt.Errorf("call %d ended %d times and ran %d times", i, w.ended[i], w.ran[i])
		}
	}
	return nil
}

// explore goes through all orders of steps, by repeating each up to its last choice that has
// another way. It stops after limit orders.
func explore(cfg Config, calls, limit int, near bool, seen func(*world)) (orders int, err error) {
	var path, widths []int
	var room [stepsOfKind]int
	for orders < limit {
		w := worldOf(cfg, calls, near)
		for depth := 0; ; depth++ {
			list := w.possible(room[:0])
			if len(list) == 0 || w.bad != nil || depth > 500 {
				break
			}
			if depth == len(path) {
				path, widths = append(path, 0), append(widths, len(list))
			}
			w.step(list[path[depth]])
		}
		orders++
		seen(w)
		if err := w.check(); err != nil {
			return orders, fmt.Errorf("order %v: %w", path, err)
		}
		for len(path) > 0 && path[len(path)-1]+1 == widths[len(path)-1] {
			path, widths = path[:len(path)-1], widths[:len(widths)-1]
		}
		if len(path) == 0 {
			return orders, nil
		}
		path[len(path)-1]++
	}
	return orders, nil
}

// scheduled are the clients that TestSchedules and TestRandomSchedules go through.
func scheduled() map[string]Config {
	return map[string]Config{
		"hybrid": {R: 1, SwitchAfter: 1}, "paper": {R: 1, SwitchAfter: 1, Paper: true},
		"behind": {R: 1, First: Behind}, "after": {R: 2, First: After}, "reply": {Mode: Reply},
	}
}

// TestSchedules runs the code of both sides in every order of their steps and of their operations,
// for one call: a handler that ends before, between and after all that a client does to change
// the mode of its message.
func TestSchedules(t *testing.T) {
	for _, near := range []bool{false, true} {
		asked := uint64(0)
		for name, cfg := range scheduled() {
			n, err := explore(cfg, 1, 200_000, near, func(w *world) { asked += w.c.Stats().Asked })
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n == 200_000 {
				t.Errorf("%s: more orders than are gone through", name)
			}
			t.Logf("%s, near %v: %d orders", name, near, n)
		}
		if asked == 0 {
			t.Error("no message changed its mode")
		}
	}
}

// TestRandomSchedules does the same with more calls, two at a time, in random orders.
func TestRandomSchedules(t *testing.T) {
	for name, cfg := range scheduled() {
		for seed := range uint64(2000) {
			rng := rand.New(rand.NewPCG(seed, 3))
			w := worldOf(cfg, 9, seed%2 == 1)
			var room [stepsOfKind]int
			// Fetching may go on for long while the server gets no step, but not for ever.
			for range 20_000 {
				list := w.possible(room[:0])
				if len(list) == 0 || w.bad != nil {
					break
				}
				w.step(list[rng.IntN(len(list))])
			}
			if err := w.check(); err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
		}
	}
}
