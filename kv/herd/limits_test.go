package herd

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kv/message"
)

// TestNewPart: the limits of what a Part can be, on both sides.
func TestNewPart(t *testing.T) {
	g := Geometry{2, 4, 128}
	h := handlerFunc(func([]Request) {})
	for _, row := range []struct {
		g               Geometry
		number, clients int
		h               Handler
		ok              bool
	}{{g, 0, 1, h, true}, {g, 1, 1 << 16, h, true}, {g, -1, 1, h, false}, {g, 2, 1, h, false},
		{g, 0, 0, h, false}, {g, 0, 1<<16 + 1, h, false}, {g, 0, 1, nil, false},
		{Geometry{}, 0, 1, h, false}} {
		p, err := NewPart(row.g, row.number, row.clients, row.h)
		if (p != nil) != row.ok || (err == nil) != row.ok || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("%+v, number %d, %d clients: %v, %v", row.g, row.number, row.clients, p, err)
		}
	}
}

// TestJoin: numbers and sizes at their limits.
func TestJoin(t *testing.T) {
	g := Geometry{1, 1, 64}
	p, err := NewPart(g, 0, 2, handlerFunc(func([]Request) {}))
	if err != nil {
		t.Fatal(err)
	}
	full, short := aligned(64), aligned(64)[:63]
	for _, row := range []struct {
		number            int
		requests, answers []byte
		want              error
		clients           int
	}{{-1, full, full, ErrClient, 0}, {2, full, full, ErrClient, 0}, {0, short, full, ErrConfig, 0},
		{0, full, short, ErrConfig, 0}, {0, full, full, nil, 1}, {0, full, full, ErrClient, 1},
		{1, nil, full, nil, 2}} {
		if err := p.Join(row.number, row.requests, row.answers); !errors.Is(err, row.want) {
			t.Errorf("number %d, %d and %d bytes: %v, want %v", row.number, len(row.requests),
				len(row.answers), err, row.want)
		}
		if p.Clients() != row.clients {
			t.Errorf("%d clients, want %d", p.Clients(), row.clients)
		}
	}
	for _, number := range []int{-1, 2} { // nobody
		if p.Leave(number); p.Clients() != 2 {
			t.Errorf("%d clients after number %d left", p.Clients(), number)
		}
	}
}

// TestLeave: a client that has left is not served any more, and all others are, whichever it was.
func TestLeave(t *testing.T) {
	for gone := range 3 {
		r := newRig(t, Geometry{2, 1, 128}, 3, 1, faults{delay: 1})
		body, part := good(t, "apple")
		p := r.parts[part]
		p.Leave(gone)
		for _, c := range r.clients {
			slot, frame := r.g.slot(c.chunk, part), aligned(128)
			n := seal(frame, copy(frame, body), message.Get, markOf(1, 0))
			copy(slot[len(slot)-n:], frame[:n])
		}
		served := map[int]int{}
		for range 3 {
			p.Sweep()
			for _, a := range p.Run() {
				served[a.Client]++
			}
		}
		for i := range 3 {
			if want := map[bool]int{false: 1}[i == gone]; served[i] != want {
				t.Errorf("client %d has left: %d answers to client %d, want %d", gone, served[i], i, want)
			}
		}
	}
}

// TestEmptySweep: where nothing came nothing runs and nothing is counted.
func TestEmptySweep(t *testing.T) {
	r := newRig(t, Geometry{1, 2, 128}, 1, 1, faults{delay: 1})
	p := r.parts[0]
	p.handler = handlerFunc(func([]Request) { t.Error("an empty batch ran") })
	if n, list := p.Sweep(), p.Run(); n != 0 || len(list) != 0 {
		t.Errorf("%d requests, %d answers", n, len(list))
	}
	if st := p.Stats(); st != (Stats{}) {
		t.Errorf("%+v", st)
	}
	if p.Room() != Batch {
		t.Errorf("room for %d", p.Room())
	}
}

// TestRepeatTimes: a request is repeated after 20 ms, then after twice the time, up to 100 ms, and
// ends after 5 s, if nothing else was asked for.
func TestRepeatTimes(t *testing.T) {
	g := Geometry{1, 1, 128}
	w, err := NewWindow(g, aligned(g.Chunk()), Timing{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(0, message.Get, []byte("body"), 7, 1); err != nil {
		t.Fatal(err)
	}
	w.Posts()
	at := func(d time.Duration) monotime.Time { return monotime.Time(1).Add(d) }
	never := func(d Done) { t.Errorf("ended: %+v", d) }
	due := time.Duration(0)
	for i, wait := range []time.Duration{20, 40, 80, 100, 100, 100} {
		due += wait * time.Millisecond
		if w.Tick(at(due-1), never); len(w.Posts()) != 0 {
			t.Errorf("repeat %d came before %v", i, due)
		}
		if w.Tick(at(due), never); len(w.Posts()) != 1 {
			t.Errorf("repeat %d did not come after %v", i, due)
		}
	}
	if w.Counts().Repeats != 6 {
		t.Errorf("%+v", w.Counts())
	}
	w.Tick(at(5*time.Second-1), never)
	var end []Done
	w.Tick(at(5*time.Second), func(d Done) { end = append(end, d) })
	if len(end) != 1 || end[0].Tag != 7 || end[0].Err != ErrTimeout || w.Pending() != 0 {
		t.Errorf("%+v, %d under way", end, w.Pending())
	}
}

// TestPatience: once a round trip was measured, a request is repeated after it and four times its
// deviation, between Min and Max.
func TestPatience(t *testing.T) {
	g := Geometry{1, 1, 128}
	for _, row := range []struct{ rtt, want time.Duration }{{time.Microsecond, 2 * time.Millisecond},
		{10 * time.Millisecond, 30 * time.Millisecond}, {90 * time.Millisecond, 100 * time.Millisecond}} {
		w, err := NewWindow(g, aligned(g.Chunk()), Timing{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(0, message.Get, nil, 1, 1); err != nil {
			t.Fatal(err)
		}
		answer := aligned(128)
		n := seal(answer, 0, 0, markOf(1, 0))
		now := monotime.Time(1).Add(row.rtt)
		if d, ok := w.Answer(0, answer[:n], now); !ok || d.Err != nil {
			t.Fatalf("%+v, %v", d, ok)
		}
		if got := w.patience(); got != row.want {
			t.Errorf("round trip %v: repeats after %v, want %v", row.rtt, got, row.want)
		}
	}
}

// TestStart: bodies of every size that fits a slot, and partitions that there are.
func TestStart(t *testing.T) {
	g := Geometry{2, 1, 64}
	for _, row := range []struct {
		part, size int
		want       error
	}{{0, g.Body(), nil}, {1, 0, nil}, {0, g.Body() + 1, ErrTooBig}, {-1, 1, ErrSlot},
		{2, 1, ErrSlot}} {
		w, err := NewWindow(g, aligned(g.Chunk()), Timing{})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Start(row.part, message.Get, make([]byte, row.size), 1, 1)
		if !errors.Is(err, row.want) || len(w.Posts()) != map[bool]int{true: 1}[err == nil] {
			t.Errorf("partition %d, %d bytes: %v, want %v", row.part, row.size, err, row.want)
		}
		if err == nil && !errors.Is(w.Start(row.part, message.Get, nil, 2, 1), ErrBusy) {
			t.Error("a slot was used twice")
		}
	}
	if _, err := NewWindow(g, aligned(g.Chunk())[:g.Chunk()-1], Timing{}); !errors.Is(err, ErrConfig) {
		t.Errorf("too little memory: %v", err)
	}
}
