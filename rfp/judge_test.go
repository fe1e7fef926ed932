package rfp

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestJudge goes through messages that end, and holds the mode of their type after each: F for
// fetching, R for replies. Times are at the limits and one unit beside them.
func TestJudge(t *testing.T) {
	const slow, quick = 7 * time.Microsecond, 5 * time.Microsecond // SwitchTime, BackTime
	type end struct {
		took  time.Duration
		reads int // that found nothing
		size  int
	}
	for name, c := range map[string]struct {
		cfg  Config
		ends []end
		want string
	}{
		"switch time": {Config{}, []end{{took: slow - 1}, {took: slow}, {took: slow - 1}, {took: slow},
			{took: slow}}, "FFFFR"},
		"back time": {Config{SwitchAfter: 1}, []end{{took: slow}, {took: quick}, {took: slow - 1},
			{took: quick - 1}, {took: slow - 1}}, "RRRFF"},
		"back in a row": {Config{}, []end{{took: slow}, {took: slow}, {took: 0}, {took: quick},
			{took: 0}, {took: 0}}, "FRRRRF"},
		"size": {Config{ReplyAbove: 100}, []end{{size: 100}, {size: 101}, {size: 101}, {size: 100},
			{size: 101}, {size: 100}, {size: 100}}, "FFRRRRF"},
		"reads do not matter": {Config{R: 2}, []end{{reads: 9}, {reads: 9}, {reads: 9}}, "FFF"},
		"paper: reads": {Config{Paper: true, R: 2}, []end{{reads: 2}, {reads: 3}, {reads: 2},
			{reads: 3}, {reads: 3}}, "FFFFR"},
		"paper: back at once": {Config{Paper: true, R: 2}, []end{{reads: 3}, {reads: 3},
			{took: quick}, {took: quick - 1}, {took: slow}, {took: slow}}, "FRRFFF"},
		"paper: size": {Config{Paper: true, ReplyAbove: 100, SwitchAfter: 1}, []end{{size: 101},
			{size: 101}, {size: 100}}, "RRF"},
	} {
		c.cfg.SwitchTime, c.cfg.BackTime = slow, quick
		cl := newWorld(c.cfg, 1).c
		m, got, there, back := &cl.modes[1], "", uint64(0), uint64(0)
		for _, e := range c.ends {
			was := m.reply
			m.process = e.took
			cl.judge(1, m, &slot{reply: was, reads: e.reads}, e.size)
			switch {
			case m.reply && !was:
				there++
			case was && !m.reply:
				back++
			}
			got += map[bool]string{false: "F", true: "R"}[m.reply]
		}
		if st := cl.Stats(); got != c.want || st.ToReply != there || st.ToFetch != back {
			t.Errorf("%s: modes %s, want %s; %d and %d changes, counted %d and %d", name, got, c.want,
				there, back, st.ToReply, st.ToFetch)
		}
	}
}

// TestMissed holds when a READ that found nothing is followed by another one, and when by a reply.
func TestMissed(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   Config
		reads int // READs until the message changes; 0: it never does
	}{
		"hybrid": {Config{R: 3}, 4}, "fetch": {Config{R: 3, Mode: Fetch}, 0},
		// The first message of Paper may retry for ever; the second one in a row changes the mode.
		"paper":       {Config{R: 3, Paper: true}, 0},
		"paper, once": {Config{R: 3, Paper: true, SwitchAfter: 1}, 4},
	} {
		w := newWorld(c.cfg, 1)
		w.send()
		for n := 1; n <= 20; n++ {
			for w.c.Stats().Missed < uint64(n) {
				if len(w.x.queue) == 0 {
					t.Fatalf("%s: nothing under way after %d READs", name, n-1)
				}
				w.x.take()
				w.c.Poll(1)
			}
			if asked := w.c.Stats().Asked == 1; asked != (c.reads != 0 && n >= c.reads) {
				t.Fatalf("%s: a reply asked for is %v after %d READs", name, asked, n)
			}
			if w.c.Stats().Asked == 1 {
				break
			}
		}
	}
}

// TestGeometryLimits holds the least and the largest sizes of messages.
func TestGeometryLimits(t *testing.T) {
	for g, ok := range map[Geometry]bool{
		{1, entryBytes, entryBytes}: true, {1, MaxBody, MaxBody}: true,
		{MaxSlots, entryBytes, entryBytes}: true, {MaxSlots + 1, entryBytes, entryBytes}: false,
		{0, entryBytes, entryBytes}: false, {1, entryBytes - 1, entryBytes}: false,
		{1, entryBytes, entryBytes - 1}: false, {1, MaxBody + 1, entryBytes}: false,
		{1, entryBytes, MaxBody + 1}: false,
	} {
		if err := g.Check(); (err == nil) != ok || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

// TestLargest holds the largest request that fits, and that the error beyond says how large it is.
func TestLargest(t *testing.T) {
	w := newWorld(Config{}, 1)
	most := w.c.cfg.Request - entryBytes
	err := w.c.Send(&Call{Kind: 1, Body: make([]byte, most+1)})
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "61 bytes, at most 60") {
		t.Error(err)
	}
	if err := w.c.Send(&Call{Kind: 1, Body: make([]byte, most),
		Done: func(uint64, []byte, error) {}}); err != nil {
		t.Error(err)
	}
}

// TestCounts holds what Poll returns, when calls have ended before too, and that Close ends a call
// whose message is still open.
func TestCounts(t *testing.T) {
	w := newWorld(Config{Mode: Reply}, 2)
	for range 2 {
		w.sent = 0 // two calls a round
		w.send()
		w.toServer()
		for len(w.y.queue) > 0 {
			w.y.take()
		}
		if n := w.c.Poll(1); n != 2 {
			t.Fatalf("Poll returned %d, want 2", n)
		}
	}
	var got error
	err := w.c.Send(&Call{Kind: 1, Body: []byte{0}, Done: func(_ uint64, _ []byte, err error) {
		got = err
	}})
	if err := errors.Join(err, w.c.Close()); err != nil || !errors.Is(got, ErrClosed) {
		t.Errorf("%v; an open call ended with %v, want ErrClosed", err, got)
	}
}

// TestSetMode holds that a caller's choice takes effect, and that the same one again changes
// nothing.
func TestSetMode(t *testing.T) {
	c := newWorld(Config{Mode: Fetch}, 1).c
	for _, m := range []Mode{Fetch, Reply, Reply, Fetch, Fetch} {
		c.SetMode(1, m)
		if c.Mode(1) != m || c.Mode(2) != Fetch {
			t.Errorf("modes %v and %v, want %v and fetch", c.Mode(1), c.Mode(2), m)
		}
	}
}

// TestDefaults holds the time below which clients fetch again, the least and the largest F, and
// that a call which takes just the limit is not late.
func TestDefaults(t *testing.T) {
	c := Config{Geometry: small, SwitchTime: 1000, F: Overhead}
	if err := c.fill(); err != nil || c.BackTime != 800 || c.F != Overhead {
		t.Errorf("BackTime %v, F %d, %v", c.BackTime, c.F, err)
	}
	for f, ok := range map[int]bool{MaxBody: true, MaxBody + 1: false, Overhead - 1: false} {
		c := Config{Geometry: small, F: f}
		if err := c.fill(); (err == nil) != ok {
			t.Errorf("F = %d: %v", f, err)
		}
	}
	s := NewSizer(4, 10, 0.05)
	for range sizerCalls {
		s.Add(1, 10)
	}
	if s.Size() != 2 {
		t.Errorf("batches of %d after calls at the limit, want 2", s.Size())
	}
}

// TestTail holds that the last word of a message covers the body and the first words if the message
// says so, and its sequence only otherwise.
func TestTail(t *testing.T) {
	a, b := []byte("one body"), []byte("two body")
	sum, plain := head{seq: 7, size: 8, count: 1, flags: flagSum}, head{seq: 7, size: 8, count: 1}
	more := sum
	more.count = 2
	if tail(5, &sum, a) == tail(5, &sum, b) || tail(5, &sum, a) == tail(5, &more, a) {
		t.Error("a change is not seen")
	}
	next := plain
	next.seq++
	if tail(5, &plain, a) != tail(5, &plain, b) || tail(5, &plain, a) == tail(5, &next, a) {
		t.Error("without the flag the sequence alone matters")
	}
}

// TestWarm holds that Warm sees the requests of batches, and those only, and that a message with
// bad flags ends its link as malformed.
func TestWarm(t *testing.T) {
	g := Geometry{Slots: 1, Request: 64, Response: 64}
	var warmed []int
	s, err := NewServer(ServerConfig{Geometry: g,
		Warm: func(_ []uint8, reqs [][]byte) { warmed = append(warmed, len(reqs)) }})
	if err != nil {
		t.Fatal(err)
	}
	_, y := manualPair(ClientSpecs(g), ServerSpecs(g))
	if err := s.Serve(y); err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{1, 2, 1, 3} {
		h := head{seq: uint32(i + 1), size: n * entryBytes, count: n}
		for j := range n {
			putEntry(y.Region(serverRequests)[headBytes+j*entryBytes:], 0, 1)
		}
		finish(y.Region(serverRequests), s.conns[0].nonce, &h)
		s.Poll(1)
	}
	if len(warmed) != 2 || warmed[0] != 2 || warmed[1] != 3 || s.Stats().Requests != 7 {
		t.Errorf("warmed %v, %+v", warmed, s.Stats())
	}
	h := head{seq: 5, size: entryBytes, count: 1, flags: flagsKnown}
	finish(y.Region(serverRequests), s.conns[0].nonce, &h)
	s.Poll(1)
	if st := s.Stats(); st.Malformed != 1 || s.Links() != 0 {
		t.Errorf("%+v", st)
	}
}
