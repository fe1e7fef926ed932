package rfp

import (
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// toServer carries out what the client has posted, and has the server answer it.
func (w *world) toServer() {
	for len(w.x.queue) > 0 {
		w.x.take()
	}
	for w.s.Poll(1) > 0 {
	}
}

// TestReplyLost breaks the server's queue pair when its replies are under way. They have no
// completions, and the client has nothing under way that could fail: the server alone can notice,
// and its end of the link ends the client's calls.
func TestReplyLost(t *testing.T) {
	for name, cfg := range map[string]Config{"reply": {Mode: Reply}, "asked": {R: 1, SwitchAfter: 1}} {
		w := newWorld(cfg, 2)
		var errs []error
		for range 2 {
			err := w.c.Send(&Call{Kind: 1, Body: []byte{0},
				Done: func(_ uint64, _ []byte, err error) { errs = append(errs, err) }})
			if err != nil {
				t.Fatal(err)
			}
			w.c.Poll(1)
		}
		for i := 0; cfg.Mode == Hybrid && i < 20; i++ { // READs that miss, until the mode changes
			for len(w.x.queue) > 0 {
				w.x.take()
			}
			w.c.Poll(1)
		}
		w.y.broken = onesided.ErrPeer
		w.toServer()
		if w.s.Stats().Replies != 2 {
			t.Fatalf("%s: %+v, want 2 replies", name, w.s.Stats())
		}
		for range 2 * silence {
			w.s.Poll(1)
		}
		w.c.Poll(1)
		gone := func(err error) bool { return errors.Is(err, onesided.ErrPeer) }
		if len(errs) != 2 || !gone(errs[0]) || !gone(errs[1]) {
			t.Errorf("%s: calls ended with %v, want ErrPeer twice", name, errs)
		}
		if st := w.s.Stats(); w.s.Links() != 0 || st.Ended != 1 || !gone(w.c.Err()) {
			t.Errorf("%s: %d links, %+v, the client has %v", name, w.s.Links(), st, w.c.Err())
		}
	}
}

// TestFullLink holds up the replies of one client, whose link takes no operations. Another one's
// go, and the first one's when its link takes them again, each once.
func TestFullLink(t *testing.T) {
	a := newWorld(Config{Mode: Reply}, 2)
	b := newWorld(Config{Mode: Reply}, 6)
	// Both clients at one server.
	if err := a.s.Serve(b.y); err != nil {
		t.Fatal(err)
	}
	b.s, b.c.control = a.s, control{}
	b.c.opened = false
	b.ran = make([]int, 6)
	b.c.Poll(1)
	b.x.take()
	b.c.Poll(1)
	a.s.Handle(1, func(req, resp []byte) ([]byte, error) {
		return append(resp, req[0], req[0]^0x5a), nil
	})
	a.y.full = true
	a.send()
	a.toServer()
	for range 20 {
		b.send()
		b.toServer()
		for len(b.y.queue) > 0 {
			b.y.take()
		}
		b.c.Poll(1)
	}
	for i, n := range b.ended {
		if n != 1 || b.bad != nil {
			t.Fatalf("call %d of the other client ended %d times: %v", i, n, b.bad)
		}
	}
	if len(a.y.queue) != 0 || a.ended[0]+a.ended[1] != 0 || len(a.s.queue) != 2 {
		t.Fatalf("%d replies of the full link posted, %d wait", len(a.y.queue), len(a.s.queue))
	}
	a.y.full = false
	a.s.Poll(1)
	if len(a.y.queue) != 2 || len(a.s.queue) != 0 {
		t.Fatalf("%d replies posted, %d wait, want 2 and none", len(a.y.queue), len(a.s.queue))
	}
	a.y.take()
	a.y.take()
	a.c.Poll(1)
	if a.ended[0] != 1 || a.ended[1] != 1 || a.bad != nil {
		t.Errorf("calls ended %v times: %v", a.ended, a.bad)
	}
}

// TestOneAtATime holds a server that waits for each reply to one WRITE under way and one result in
// hand. It takes the next message when the WRITE has ended, or when the link of the WRITE has.
func TestOneAtATime(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		g := Geometry{Slots: 2, Request: 64, Response: 64}
		s, err := NewServer(ServerConfig{Geometry: g, OneAtATime: true})
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		s.Handle(1, func(_, resp []byte) ([]byte, error) { ran++; return resp, nil })
		var links []*manual
		for range 2 {
			x, y := manualPair(ClientSpecs(g), ServerSpecs(g))
			if err := s.Serve(y); err != nil {
				t.Fatal(err)
			}
			links = append(links, y)
			for slot := range g.Slots {
				mem := onesided.Memory(stride(g.Request))
				putEntry(mem[headBytes:], 0, 1)
				h := head{seq: 1, size: entrySize(0), count: 1, flags: flagReply}
				finish(mem, s.conns[len(s.conns)-1].nonce, &h)
				copy(y.Region(serverRequests)[g.requestAt(slot):], mem)
			}
			_ = x
		}
		poll := func(want, posted int) {
			t.Helper()
			s.Poll(10)
			if got := s.Stats().Replies; ran != want || got != uint64(posted) {
				t.Fatalf("breaks=%v: %d messages ran, %d replies posted, want %d and %d", breaks, ran,
					got, want, posted)
			}
		}
		poll(2, 1) // one under way, one in hand
		poll(2, 1)
		first := links[0]
		if len(first.queue) == 0 {
			t.Fatal("the first reply is not on the first link")
		}
		if breaks {
			first.err = onesided.ErrPeer
			poll(3, 2) // the first link had another message, which is lost with it
			if s.Links() != 1 {
				t.Fatalf("%d links", s.Links())
			}
			continue
		}
		for done := 1; done <= 4; done++ {
			for _, l := range links {
				if len(l.queue) > 0 {
					l.take()
					break
				}
			}
			poll(min(done+2, 4), min(done+1, 4))
		}
	}
}
