package rfp

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// put makes a call with a body of n bytes, and ends the test if it is refused.
func (w *world) put(t *testing.T, n int) {
	t.Helper()
	err := w.c.Send(&Call{Kind: 1, Body: make([]byte, n), Done: func(uint64, []byte, error) {}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBatchBounds holds when a message is closed: by its count, by its bytes, or by a call for
// which its bytes do not suffice. Wait keeps it open otherwise.
func TestBatchBounds(t *testing.T) {
	const entry = entryBytes + 8
	for name, c := range map[string]struct {
		batch, bytes int
		bodies       []int
		want         []int // messages that have left, after each call
	}{
		"one short of the count":  {3, 64, []int{8, 8}, []int{0, 0}},
		"the count":               {3, 64, []int{8, 8, 8, 8}, []int{0, 0, 1, 1}},
		"one short of the bytes":  {9, 2*entry + 1, []int{8, 8}, []int{0, 0}},
		"the bytes":               {9, 2 * entry, []int{8, 8, 8}, []int{0, 1, 1}},
		"no room for the next":    {9, 2*entry + 1, []int{8, 8, 8}, []int{0, 0, 1}},
		"larger than the bytes":   {9, entry, []int{9}, []int{1}},
		"larger behind a smaller": {9, entry + 1, []int{8, 12}, []int{0, 2}},
	} {
		w := newWorld(Config{Mode: Reply, Batch: c.batch, BatchBytes: c.bytes, Wait: time.Second}, 1)
		for i, n := range c.bodies {
			w.put(t, n)
			w.c.Poll(1)
			if len(w.x.queue) != c.want[i] {
				t.Errorf("%s: %d messages left after call %d, want %d", name, len(w.x.queue), i+1,
					c.want[i])
				break
			}
		}
	}
}

// TestWait holds that a message is open while calls come, for Wait at most, and that it leaves with
// the first Poll before which none came.
func TestWait(t *testing.T) {
	const wait = 1000
	left := func(second Time, calls bool) int {
		w := newWorld(Config{Mode: Reply, Batch: 8, Wait: wait}, 1)
		w.c.Poll(10)
		w.put(t, 0)
		w.c.Poll(10)
		if calls {
			w.put(t, 0)
		}
		w.c.Poll(second)
		return len(w.x.queue)
	}
	if a, b, c := left(10+wait-1, true), left(10+wait, true), left(11, false); a != 0 ||
		b != 1 || c != 1 {
		t.Errorf("messages left: %d just before Wait, %d after it, %d without a new call", a, b, c)
	}
}

// TestPace holds the times of a client's READs to the process time that the server reported last:
// none is known for the first message, whose READ goes with it; then the first one comes after 1.5
// process times, and those after one in vain each a quarter later.
func TestPace(t *testing.T) {
	const process = 6400 * time.Nanosecond // 100 units of the header
	w := newWorld(Config{Mode: Fetch}, 1)
	clock := Time(0)
	w.s.cfg.Clock = func() Time { return clock }
	w.s.Handle(1, func(_, resp []byte) ([]byte, error) {
		clock = clock.Add(process)
		return resp, nil
	})
	now := Time(1)
	reads := func() (n int) {
		for _, op := range w.x.queue {
			if op.Read {
				n++
			}
		}
		return n
	}
	w.put(t, 0)
	if w.c.Poll(now); reads() != 1 {
		t.Fatalf("%d READs with the first message, want 1", reads())
	}
	w.x.take()
	w.s.Poll(1)
	w.x.take()
	if n := w.c.Poll(now); n != 1 || w.c.Took(1) != process {
		t.Fatalf("%d calls ended, a process time of %v, want 1 and %v", n, w.c.Took(1), process)
	}
	now = now.Add(time.Millisecond)
	w.c.Poll(now)
	w.put(t, 0)
	w.c.Poll(now)
	for i, d := range []time.Duration{process + process/2, process / 4, process / 4} {
		at := now.Add(d)
		if got := w.c.NextWake(); got != at {
			t.Fatalf("READ %d is planned %v after the event before it, want %v", i+1, got.Sub(now), d)
		}
		if w.c.Poll(at - 1); reads() != 0 {
			t.Fatalf("READ %d comes before its time", i+1)
		}
		if w.c.Poll(at); reads() != 1 {
			t.Fatalf("%d READs at the time of READ %d", reads(), i+1)
		}
		for len(w.x.queue) > 0 {
			w.x.take() // the server does not poll: it is in vain
		}
		now = at
		w.c.Poll(now)
	}
	if st := w.c.Stats(); st.Missed != 3 {
		t.Errorf("%+v, want 3 READs in vain", st)
	}
}

// TestSignals holds which replies ask for a completion: of signalEvery in a row the last one. A
// reply that a full link refused is counted when it goes, and not before.
func TestSignals(t *testing.T) {
	w := newWorld(Config{Mode: Reply}, 1)
	for n := 1; n <= 3*signalEvery; n++ {
		w.put(t, 1)
		w.c.Poll(1)
		w.y.full = n%7 == 0
		w.toServer()
		if w.y.full {
			w.s.Poll(1)
			w.y.full = false
			w.s.Poll(1)
		}
		if len(w.y.queue) != 1 {
			t.Fatalf("%d replies posted, want one", len(w.y.queue))
		}
		if got := w.y.queue[0].Signal; got != (n%signalEvery == 0) {
			t.Errorf("reply %d of %d: a completion is %v", n, signalEvery, got)
		}
		w.y.take()
		if w.c.Poll(1) != 1 {
			t.Fatalf("call %d has not ended", n)
		}
	}
}

// counted is a link that counts polls.
type counted struct {
	*manual
	polls int
}

func (c *counted) Poll(list []onesided.Completion) int {
	c.polls++
	return c.manual.Poll(list)
}

// TestSilence holds how often a server polls links from which nothing comes: never where no reply
// may be under way, and else once in silence looks.
func TestSilence(t *testing.T) {
	w := newWorld(Config{Mode: Reply}, 1)
	busy := &counted{manual: w.y}
	w.s.conns[0].link = busy
	g := w.s.cfg.Geometry
	_, y := manualPair(ClientSpecs(g), ServerSpecs(g))
	idle := &counted{manual: y}
	if err := w.s.Serve(idle); err != nil {
		t.Fatal(err)
	}
	looks := func(n int) {
		for range n {
			w.s.Poll(1)
		}
	}
	looks(3 * silence)
	if busy.polls != 0 || idle.polls != 0 {
		t.Fatalf("%d and %d polls before any reply", busy.polls, idle.polls)
	}
	w.put(t, 1)
	w.c.Poll(1)
	w.toServer()
	if st := w.s.Stats(); st.Replies != 1 {
		t.Fatalf("%+v, want a reply", st)
	}
	busy.polls = 0
	looks(10 * silence)
	if busy.polls != 10 || idle.polls != 0 {
		t.Errorf("%d and %d polls in %d looks, want 10 and none", busy.polls, idle.polls, 10*silence)
	}
}

// TestNoRoom gives a server messages whose answers just fit, and one entry more. The first one has
// them all; for the other not even the words of the answers fit, so it has none and runs nothing.
func TestNoRoom(t *testing.T) {
	g := Geometry{Slots: 1, Request: 64, Response: 2*entryBytes + 3} // 3 bytes too few for a third
	for n, want := range map[int]int{1: 1, 2: 2, 3: 0, 4: 0} {
		s, err := NewServer(ServerConfig{Geometry: g})
		if err != nil {
			t.Fatal(err)
		}
		room := []int{}
		s.Handle(1, func(_, resp []byte) ([]byte, error) {
			room = append(room, cap(resp))
			return resp, nil
		})
		_, y := manualPair(ClientSpecs(g), ServerSpecs(g))
		if err := s.Serve(y); err != nil {
			t.Fatal(err)
		}
		mem := y.Region(serverRequests)
		for i := range n {
			putEntry(mem[headBytes+i*entryBytes:], 0, 1)
		}
		finish(mem, s.conns[0].nonce, &head{seq: 1, size: n * entryBytes, count: n})
		s.Poll(1)
		resp := y.Region(serverResponses)[g.responseAt(0):]
		h := parseHead(onesided.Load(resp, 0), onesided.Load(resp, 8))
		if h.seq != 1 || h.count != want || h.size != want*entryBytes || len(room) != want {
			t.Errorf("%d requests: %d answers in %d bytes, %d ran, want %d", n, h.count, h.size,
				len(room), want)
		}
		if st := s.Stats(); st.Messages != 1 || st.Requests != uint64(want) || s.Links() != 1 {
			t.Errorf("%d requests: %+v, %d links", n, st, s.Links())
		}
		// What the entries behind it need is kept from each.
		for i, got := range room {
			if left := (2 - want) * entryBytes; got != left {
				t.Errorf("%d requests: request %d has room for %d bytes, want %d", n, i+1, got, left)
			}
		}
	}
}
