package herd

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Errors of requests.
var (
	ErrBusy    = errors.New("herd: all slots of the partition are in use") // an answer frees one
	ErrTooBig  = errors.New("herd: the request does not fit a slot")
	ErrTimeout = errors.New("herd: no answer: the request may have run")
)

// Timing says when a client repeats a request, and when it gives up.
type Timing struct {
	First  time.Duration // until the first repeat, before there is a round trip; default 20 ms
	Min    time.Duration // ... at least; default 2 ms
	Max    time.Duration // between repeats at most; default 100 ms
	GiveUp time.Duration // default 5 s
}

func (t *Timing) setDefaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&t.First, 20*time.Millisecond)
	set(&t.Min, 2*time.Millisecond)
	set(&t.Max, 100*time.Millisecond)
	set(&t.GiveUp, 5*time.Second)
}

// Post is a frame to be written into the slot of its number, so that it ends there: Memory[At:At +
// Size].
type Post struct {
	Slot int
	At   int
	Size int
}

// Done is the end of a request.
type Done struct {
	Tag  uint64
	Body []byte // of the answer; valid until the caller has looked at it
	Err  error  // that of a Refusal, ErrTimeout, or that of Fail
}

// Counts says what a Window did.
type Counts struct {
	Requests uint64
	Repeats  uint64 // tries after the first
	Late     uint64 // answers that nobody waits for: to an earlier try, or after ErrTimeout
	Damaged  uint64 // answers that are no frames
}

// Window is the client's side: its slots at all partitions of a server. One goroutine at a time
// uses it.
type Window struct {
	g      Geometry
	timing Timing
	memory []byte // frames, where posts refer to: each at the beginning of its slot
	calls  []call
	free   [][]int // slots by partition
	posts  []Post
	busy   int
	next   monotime.Time // no call is due before
	srtt   time.Duration // smoothed round trip, and its deviation (RFC 6298)
	rttvar time.Duration
	buf    []byte
	counts Counts
}

// call is a slot.
type call struct {
	seq   uint64
	try   uint8
	busy  bool
	size  int // of the frame
	tag   uint64
	wait  time.Duration // until the next repeat
	sent  monotime.Time // the last time
	due   monotime.Time
	ends  monotime.Time
	heard Mark // an answer in memory that was looked at
}

// NewWindow makes a client's side with memory of Geometry.Chunk bytes, which is the Window's. The
// error is ErrConfig.
func NewWindow(g Geometry, memory []byte, t Timing) (*Window, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	if len(memory) < g.Chunk() {
		return nil, fmt.Errorf("%w: %d bytes of memory, want %d", ErrConfig, len(memory), g.Chunk())
	}
	t.setDefaults()
	w := &Window{g: g, timing: t, memory: memory, calls: make([]call, g.Slots()),
		free: make([][]int, g.Partitions), posts: make([]Post, 0, g.Slots()),
		next: monotime.Never, buf: make([]byte, g.Slot)}
	for i := range w.calls {
		p := (len(w.calls) - 1 - i) / g.Window
		w.free[p] = append(w.free[p], len(w.calls)-1-i)
	}
	return w, nil
}

// Counts returns the counters.
func (w *Window) Counts() Counts { return w.counts }

// Pending returns how many requests have no answer yet.
func (w *Window) Pending() int { return w.busy }

// Start sends a request, whose body is copied, to a partition. Errors: ErrBusy, ErrTooBig, ErrSlot
// if there is no such partition.
func (w *Window) Start(part int, kind uint8, body []byte, tag uint64, now monotime.Time) error {
	switch {
	case part < 0 || part >= len(w.free):
		return fmt.Errorf("%w: partition %d", ErrSlot, part)
	case len(body) > w.g.Body():
		return ErrTooBig
	case len(w.free[part]) == 0:
		return ErrBusy
	}
	list := w.free[part]
	i := list[len(list)-1]
	w.free[part] = list[:len(list)-1]
	c := &w.calls[i]
	c.seq++
	c.try, c.busy, c.tag = 0, true, tag
	c.wait = w.patience()
	c.sent, c.due, c.ends = now, now.Add(c.wait), now.Add(w.timing.GiveUp)
	w.next = min(w.next, c.due)
	slot := w.g.slot(w.memory, i)
	c.size = seal(slot, copy(slot, body), kind, markOf(c.seq, 0))
	w.posts = append(w.posts, Post{i, i * w.g.Slot, c.size})
	w.busy++
	w.counts.Requests++
	return nil
}

// patience returns how long to wait for an answer before a request is repeated.
func (w *Window) patience() time.Duration {
	if w.srtt == 0 {
		return w.timing.First
	}
	return min(max(w.srtt+4*w.rttvar, w.timing.Min), w.timing.Max)
}

// Posts returns what is to be posted, in order, and forgets it.
func (w *Window) Posts() []Post {
	list := w.posts
	w.posts = w.posts[:0]
	return list
}

// Unpost puts back the end of what Posts returned, which could not be posted now. Nothing was
// started in between.
func (w *Window) Unpost(rest []Post) { w.posts = append(w.posts[:0], rest...) }

// Tick repeats what is due, and gives up what has waited too long: then it calls ended for each.
func (w *Window) Tick(now monotime.Time, ended func(Done)) {
	if now < w.next {
		return
	}
	w.next = monotime.Never
	for i := range w.calls {
		c := &w.calls[i]
		if !c.busy {
			continue
		}
		if now >= c.ends {
			w.release(i)
			ended(Done{Tag: c.tag, Err: ErrTimeout})
			continue
		}
		if now >= c.due {
			c.try++
			c.wait = min(2*c.wait, w.timing.Max)
			c.sent, c.due = now, now.Add(c.wait)
			at := i * w.g.Slot
			remark(w.memory[at:at+c.size], markOf(c.seq, c.try))
			if len(w.posts) < cap(w.posts) { // else the queue stands still, and the next time will do
				w.posts = append(w.posts, Post{i, at, c.size})
				w.counts.Repeats++
			}
		}
		w.next = min(w.next, c.due, c.ends)
	}
}

// release makes a slot free.
func (w *Window) release(i int) {
	w.calls[i].busy = false
	part := i / w.g.Window
	w.free[part] = append(w.free[part], i)
	w.busy--
}

// Answer takes an answer that came as a datagram. It reports false if nobody waits for it.
func (w *Window) Answer(slot int, frame []byte, now monotime.Time) (Done, bool) {
	if slot < 0 || slot >= len(w.calls) {
		w.counts.Damaged++
		return Done{}, false
	}
	body, kind, m, err := open(frame)
	if err != nil {
		w.counts.Damaged++
		return Done{}, false
	}
	c := &w.calls[slot]
	if !c.busy || m.Seq() != c.seq {
		w.counts.Late++
		return Done{}, false
	}
	return w.finish(slot, body, kind, m, now), true
}

// Look takes an answer that the server wrote to the end of a slot of a chunk of own memory. It
// reports false if there is none yet.
func (w *Window) Look(slot int, replies []byte, now monotime.Time) (Done, bool) {
	c := &w.calls[slot]
	if !c.busy {
		return Done{}, false
	}
	mem := w.g.slot(replies, slot)
	m := loadMark(mem)
	if m.Seq() != c.seq || m == c.heard {
		return Done{}, false
	}
	body, kind, err := take(mem, w.buf, m)
	if err == ErrTorn {
		return Done{}, false
	}
	c.heard = m
	if err != nil {
		w.counts.Damaged++
		return Done{}, false
	}
	return w.finish(slot, body, kind, m, now), true
}

// finish ends a request.
func (w *Window) finish(slot int, body []byte, kind uint8, m Mark, now monotime.Time) Done {
	c := &w.calls[slot]
	if m == markOf(c.seq, c.try) {
		w.measured(now.Sub(c.sent))
	}
	w.release(slot)
	return Done{Tag: c.tag, Body: body, Err: Refusal(kind).Err()}
}

// measured takes a round trip (RFC 6298, section 2).
func (w *Window) measured(rtt time.Duration) {
	rtt = max(rtt, 1)
	if w.srtt == 0 {
		w.srtt, w.rttvar = rtt, rtt/2
		return
	}
	w.rttvar += (max(w.srtt-rtt, rtt-w.srtt) - w.rttvar) / 4
	w.srtt += (rtt - w.srtt) / 8
}

// Fail ends all requests with an error.
func (w *Window) Fail(err error, ended func(Done)) {
	w.posts = w.posts[:0]
	for i := range w.calls {
		if c := &w.calls[i]; c.busy {
			w.release(i)
			ended(Done{Tag: c.tag, Err: err})
		}
	}
}
