package herd

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// aligned returns memory as the parts get it.
func aligned(size int) []byte { return onesided.Memory(size) }

// faults are the chances of what can happen to a message, and how long it travels.
type faults struct {
	loss, twice, torn float64
	delay             time.Duration // at most
}

// fabric carries WRITEs and datagrams in virtual time, one byte of fault after the other: what it
// loses, repeats, delays and delivers in two parts follows from a seed.
type fabric struct {
	r      *rand.Rand
	faults faults
	now    monotime.Time
	events []event
}

// event is a delivery.
type event struct {
	at monotime.Time
	do func()
}

func newFabric(seed uint64, f faults) *fabric {
	return &fabric{r: rand.New(rand.NewPCG(seed, 7)), faults: f, now: 1}
}

func (f *fabric) after() monotime.Time {
	return f.now.Add(time.Duration(1 + f.r.Int64N(int64(f.faults.delay))))
}

// send delivers a message, or not, or twice.
func (f *fabric) send(deliver func()) {
	if f.r.Float64() < f.faults.loss {
		return
	}
	f.events = append(f.events, event{f.after(), deliver})
	if f.r.Float64() < f.faults.twice {
		f.events = append(f.events, event{f.after(), deliver})
	}
}

// write copies a frame to the end of a slot: at times the last word, and some words, come earlier
// than the rest.
func (f *fabric) write(slot, frame []byte) {
	data := append([]byte(nil), frame...)
	to := slot[len(slot)-len(data):]
	torn := f.r.Float64() < f.faults.torn
	f.send(func() {
		if !torn {
			copy(to, data)
			return
		}
		cut := f.r.IntN(len(data)/8) * 8
		copy(to[cut:], data[cut:])
		f.events = append(f.events, event{f.after(), func() { copy(to[:cut], data[:cut]) }})
	})
}

// step lets time pass, and delivers what is due.
func (f *fabric) step(d time.Duration) {
	f.now = f.now.Add(d)
	for i := 0; i < len(f.events); {
		if e := f.events[i]; e.at <= f.now {
			f.events[i] = f.events[len(f.events)-1]
			f.events = f.events[:len(f.events)-1]
			e.do()
			continue
		}
		i++
	}
}

// rig is a server's partitions and some clients over a fabric.
type rig struct {
	t       testing.TB
	g       Geometry
	f       *fabric
	parts   []*Part
	items   []*mica.Partition
	clients []*rigClient
	writes  bool // answers are WRITEs, as in design write
	sends   bool // requests are datagrams
}

// rigClient is a client, and its memory at both sides.
type rigClient struct {
	number  int
	window  *Window
	frames  []byte
	chunk   []byte
	replies []byte
	ended   func(Done)
}

func newRig(t testing.TB, g Geometry, clients int, seed uint64, f faults) *rig {
	return (&rig{t: t, g: g, f: newFabric(seed, f)}).open(clients)
}

// open makes partitions and clients.
func (r *rig) open(clients int) *rig {
	t, g := r.t, r.g
	for i := range g.Partitions {
		items, err := mica.New(mica.Config{Memory: 1 << 20, NoHugepages: true, Mode: mica.Store})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = items.Close() })
		p, err := NewPart(g, i, clients+1, NewStore(items, i, g.Partitions))
		if err != nil {
			t.Fatal(err)
		}
		r.parts, r.items = append(r.parts, p), append(r.items, items)
	}
	for i := range clients {
		r.join(i)
	}
	return r
}

// join adds a client.
func (r *rig) join(number int) *rigClient {
	c := &rigClient{number: number, frames: aligned(r.g.Chunk()), chunk: aligned(r.g.Chunk()),
		replies: aligned(r.g.Chunk())}
	if r.sends {
		c.chunk = nil
	}
	var err error
	if c.window, err = NewWindow(r.g, c.frames, Timing{GiveUp: time.Hour}); err != nil {
		r.t.Fatal(err)
	}
	answers := aligned(r.g.Chunk())
	for _, p := range r.parts {
		if err := p.Join(number, c.chunk, answers); err != nil {
			r.t.Fatal(err)
		}
	}
	r.clients = append(r.clients, c)
	return c
}

// pass is one pass of all clients and partitions.
func (r *rig) pass() {
	r.f.step(time.Duration(r.f.r.IntN(20)) * time.Microsecond)
	for _, c := range r.clients {
		if r.writes {
			for i := range r.g.Slots() {
				if d, ok := c.window.Look(i, c.replies, r.f.now); ok {
					c.ended(d)
				}
			}
		}
		c.window.Tick(r.f.now, c.ended)
		for _, p := range c.window.Posts() {
			r.request(c, p)
		}
	}
	for _, p := range r.parts {
		p.Sweep()
		r.answer(p.Run())
	}
}

// request posts a request.
func (r *rig) request(c *rigClient, p Post) {
	frame := c.frames[p.At : p.At+p.Size]
	if !r.sends {
		r.f.write(r.g.slot(c.chunk, p.Slot), frame)
		return
	}
	data := append([]byte(nil), frame...)
	part := r.parts[p.Slot/r.g.Window]
	r.f.send(func() {
		if part.Room() == 0 {
			return
		}
		if err := part.Offer(c.number, p.Slot, data); err != nil {
			r.t.Error(err)
		}
	})
}

// answer posts answers.
func (r *rig) answer(list []Answer) {
	for _, a := range list {
		var c *rigClient
		for _, k := range r.clients {
			if k.number == a.Client {
				c = k
			}
		}
		if c == nil {
			continue // it was killed
		}
		if r.writes {
			r.f.write(r.g.slot(c.replies, a.Slot), a.Frame)
			continue
		}
		data, slot := append([]byte(nil), a.Frame...), a.Slot
		r.f.send(func() {
			if d, ok := c.window.Answer(slot, data, r.f.now); ok {
				c.ended(d)
			}
		})
	}
}
