package herd

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// good is a GET of a key, and which partition of two has it.
func good(t testing.TB, key string) (body []byte, part int) {
	k := message.Keyed{Key: []byte(key), Hash: mica.Hash([]byte(key))}
	body, err := k.Append(nil, message.Get)
	if err != nil {
		t.Fatal(err)
	}
	return body, mica.PartitionOf(k.Hash, 2)
}

// TestRefusals: what cannot be is refused by its name, and counted.
func TestRefusals(t *testing.T) {
	r := newRig(t, Geometry{2, 1, 128}, 1, 1, faults{delay: 1})
	c := r.clients[0]
	body, part := good(t, "apple")
	write := message.Item{Key: []byte("apple"), Hash: mica.Hash([]byte("apple")) ^ 1,
		Value: []byte("red")}
	forged, err := write.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	put := write
	put.Hash = mica.Hash(put.Key)
	put.Value = bytes.Repeat([]byte("r"), 128-tailSize-26-5)
	largest, err := put.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	ask := func(part int, kind uint8, body []byte, spoil func(slot []byte)) Refusal {
		t.Helper()
		seq++
		slot := r.g.slot(c.chunk, part)
		frame := aligned(r.g.Slot)
		n := seal(frame, copy(frame, body), kind, markOf(seq, 0))
		copy(slot[len(slot)-n:], frame[:n])
		spoil(slot)
		p := r.parts[part]
		before := p.Stats()
		if p.Sweep() != 1 {
			t.Fatalf("kind %d: no answer", kind)
		}
		_, k, _, err := open(p.Run()[0].Frame)
		if after := p.Stats(); err != nil || after.Refused[k] != before.Refused[k]+1 {
			t.Errorf("kind %d: %v, %+v", kind, err, after)
		}
		return Refusal(k)
	}
	fine := func([]byte) {}
	long := func(slot []byte) { slot[len(slot)-11] = 200 } // the length's upper byte
	for _, row := range []struct {
		part  int
		kind  uint8
		body  []byte
		spoil func([]byte)
		want  Refusal
	}{
		{part, message.Get, body, fine, Answered},
		{1 - part, message.Get, body, fine, BadPartition},
		{part, message.Get, body[:8], fine, BadRequest},
		{part, message.Get, nil, fine, BadRequest},
		{part, message.Get, body, long, BadLength},
		{part, message.Write, forged, fine, BadHash},
		{part, message.Write, body[:5], fine, BadRequest},
		{part, 0, body, fine, BadKind},
		{part, message.MultiGet, body, fine, BadKind},
		{part, 255, body, fine, BadKind},
		{part, message.Write, largest, fine, Answered},
		{part, message.Get, body, fine, Answered},
		{part, message.Stats, nil, fine, TooLong},
	} {
		if got := ask(row.part, row.kind, row.body, row.spoil); got != row.want {
			t.Errorf("kind %d, %d bytes: refusal %d (%v), want %d", row.kind, len(row.body), got,
				got.Err(), row.want)
		}
	}
	for k := range refusals + 1 {
		if err := k.Err(); (err == nil) != (k == Answered) {
			t.Errorf("refusal %d: %v", k, err)
		}
	}
}

// TestTorn: a frame whose checksum stays wrong is dropped, and the next try is looked at.
func TestTorn(t *testing.T) {
	r := newRig(t, Geometry{2, 1, 128}, 1, 1, faults{delay: 1})
	body, part := good(t, "apple")
	slot, p := r.g.slot(r.clients[0].chunk, part), r.parts[part]
	frame := aligned(128)
	n := seal(frame, copy(frame, body), message.Get, markOf(1, 0))
	copy(slot[len(slot)-n:], frame[:n])
	slot[len(slot)-n] ^= 1
	for i := range 3 * looks {
		if p.Sweep() != 0 {
			t.Fatalf("sweep %d: damage is not noticed", i)
		}
	}
	if st := p.Stats(); st.Torn != 1 || st.Retakes != looks {
		t.Errorf("%+v", st)
	}
	slot[len(slot)-n] ^= 1
	remark(slot, markOf(1, 1))
	if p.Sweep() != 1 {
		t.Error("the next try is not taken")
	}
	p.Run()
}

// TestOffers: datagrams of nobody, for other slots, and that are no frames.
func TestOffers(t *testing.T) {
	r := newRig(t, Geometry{2, 2, 128}, 2, 1, faults{delay: 1})
	body, part := good(t, "apple")
	p, first := r.parts[part], 2*part
	frame := aligned(128)
	n := seal(frame, copy(frame, body), message.Get, markOf(1, 0))
	p.Leave(1)
	p.Leave(1)
	for _, row := range []struct {
		client, slot int
		frame        []byte
		want         error
	}{{-1, first, frame[:n], ErrClient}, {2, first, frame[:n], ErrClient},
		{1, first, frame[:n], ErrClient}, {0, -1, frame[:n], ErrSlot}, {0, first + 2, frame[:n], ErrSlot},
		{0, first - 1, frame[:n], ErrSlot}, {0, first, frame[:n-1], ErrLength},
		{0, first, nil, ErrLength}, {0, first, make([]byte, 4096), ErrLength},
		{0, first, frame[:n], nil}, {0, first, frame[:n], nil}} {
		if err := p.Offer(row.client, row.slot, row.frame); !errors.Is(err, row.want) {
			t.Errorf("client %d, slot %d, %d bytes: %v, want %v", row.client, row.slot, len(row.frame),
				err, row.want)
		}
	}
	if list := p.Run(); len(list) != 1 {
		t.Errorf("%d answers to one request that came twice in a batch", len(list))
	}
	if st := p.Stats(); st.Strays != 6 || st.Torn != 3 || st.Requests != 1 {
		t.Errorf("%+v", st)
	}
	if err := p.Join(0, nil, nil); !errors.Is(err, ErrClient) {
		t.Errorf("a number twice: %v", err)
	}
	if err := p.Join(1, make([]byte, 8), nil); !errors.Is(err, ErrConfig) {
		t.Errorf("a short chunk: %v", err)
	}
}

// TestWild: a client that writes anything at any time, also while the server reads, does no harm to
// another one.
func TestWild(t *testing.T) {
	r := newRig(t, Geometry{2, 4, 128}, 1, 3, bad)
	wild := aligned(r.g.Chunk())
	answers := aligned(r.g.Chunk())
	r2 := rand.New(rand.NewPCG(5, 6))
	for _, p := range r.parts {
		if err := p.Join(1, wild, answers); err != nil {
			t.Fatal(err)
		}
		run := p.handler
		p.handler = handlerFunc(func(list []Request) {
			scribble(r2, wild, r.g)
			run.Run(list)
		})
	}
	scribble(r2, wild, r.g)
	once(t, r, 300)
}

type handlerFunc func([]Request)

func (f handlerFunc) Run(list []Request) { f(list) }

// scribble writes frames with some bits changed into all slots.
func scribble(r *rand.Rand, chunk []byte, g Geometry) {
	for i := range g.Slots() {
		slot := g.slot(chunk, i)
		body := make([]byte, r.IntN(g.Body()+1))
		for k := range body {
			body[k] = byte(r.Uint32())
		}
		frame := make([]byte, g.Slot)
		n := seal(frame, copy(frame, body), uint8(r.IntN(10)), markOf(r.Uint64()>>(8+r.IntN(56)), 1))
		copy(slot[len(slot)-n:], frame[:n])
		for range r.IntN(3) {
			slot[len(slot)-1-r.IntN(24)] ^= 1 << r.IntN(8)
		}
	}
}

// FuzzSlot: whatever lies in a slot, the server gives one answer at most, in a frame.
func FuzzSlot(f *testing.F) {
	body, _ := good(f, "apple")
	frame := aligned(128)
	n := seal(frame, copy(frame, body), message.Get, markOf(1, 0))
	f.Add(frame[:n], true)
	f.Add(frame[:n], false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, written bool) {
		r := newRig(t, Geometry{2, 1, 128}, 1, 1, faults{delay: 1})
		for i, p := range r.parts {
			if written {
				slot := r.g.slot(r.clients[0].chunk, i)
				copy(slot[max(0, len(slot)-len(data)):], data[max(0, len(data)-len(slot)):])
				p.Sweep()
			} else {
				_ = p.Offer(0, i, data) // refused or not
			}
			list := p.Run()
			if len(list) > 1 {
				t.Fatalf("%d answers", len(list))
			}
			for _, a := range list {
				if _, _, _, err := open(a.Frame); err != nil || a.Slot != i {
					t.Errorf("slot %d: %v", a.Slot, err)
				}
				// The client is as careful: nobody waits for that.
				if _, ok := r.clients[0].window.Answer(a.Slot, a.Frame, 1); ok {
					t.Error("an answer nobody waits for")
				}
			}
			if _, ok := r.clients[0].window.Answer(i, data, 1); ok {
				t.Error("an answer nobody waits for")
			}
		}
	})
}

// TestHotPathAllocatesNothing: a request from Start to its end, and what is repeated.
func TestHotPathAllocatesNothing(t *testing.T) {
	r := newRig(t, Geometry{1, 16, 256}, 1, 1, faults{delay: 1})
	c, p := r.clients[0], r.parts[0]
	k := message.Keyed{Key: []byte("apple"), Hash: mica.Hash([]byte("apple"))}
	get, err := k.Append(nil, message.Get)
	if err != nil {
		t.Fatal(err)
	}
	w := message.Item{Key: k.Key, Hash: k.Hash, Value: []byte("red")}
	put, err := w.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	now, ended := monotime.Time(1), 0
	done := func(Done) { ended++ }
	n := testing.AllocsPerRun(100, func() {
		now += 1000
		for i := range 16 {
			kind, body := message.Get, get
			if i%4 == 0 {
				kind, body = message.Write, put
			}
			if err := c.window.Start(0, kind, body, uint64(i), now); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			for _, o := range c.window.Posts() {
				slot := r.g.slot(c.chunk, o.Slot)
				copy(slot[len(slot)-o.Size:], c.frames[o.At:o.At+o.Size])
			}
			c.window.Tick(now+monotime.Time(1e9), done) // repeats all
			p.Sweep()
			for _, a := range p.Run() {
				if _, ok := c.window.Answer(a.Slot, a.Frame, now); ok {
					ended++
				}
			}
		}
	})
	if n != 0 || ended != 16*101 {
		t.Errorf("%v allocations, %d requests ended", n, ended)
	}
}
