package rfp

import (
	"bytes"
	"slices"
	"testing"
)

// TestWindow holds that a reply takes no operation of a link where the client's memory is at hand,
// and that the handler's room is never there.
func TestWindow(t *testing.T) {
	w := worldOf(Config{Mode: Reply}, 2, true)
	own := w.y.Region(serverResponses)
	w.s.Handle(1, func(req, resp []byte) ([]byte, error) {
		resp = append(resp, req[0], req[0]^0x5a)
		if at := w.s.cfg.responseAt(int(req[0])) + headBytes + entryBytes; &resp[0] != &own[at] {
			t.Error("a handler works in memory that is not the server's")
		}
		return resp, nil
	})
	w.send()
	for len(w.x.queue) > 0 {
		w.x.take()
	}
	for w.s.Poll(1) > 0 {
	}
	w.c.Poll(1)
	if w.bad != nil || w.ended[0] != 1 || w.ended[1] != 1 || w.s.Stats().Replies != 2 {
		t.Errorf("calls ended %v, %d replies, %v", w.ended, w.s.Stats().Replies, w.bad)
	}
	if len(w.y.queue) > 0 {
		t.Errorf("%d operations", len(w.y.queue))
	}
}

// TestWindowFetched holds that results which clients fetch are not stored in their memory.
func TestWindowFetched(t *testing.T) {
	w := worldOf(Config{Mode: Fetch, First: Behind}, 2, true)
	w.send()
	for len(w.x.queue) > 0 {
		w.x.take()
		for w.s.Poll(1) > 0 {
		}
	}
	w.c.Poll(1)
	if st := w.s.Stats(); w.ended[0] != 1 || w.ended[1] != 1 || st.Messages != 2 || st.Replies != 0 {
		t.Errorf("calls ended %v, %+v", w.ended, st)
	}
}

// TestNoWindow holds that a server which waits for the end of each reply stores none in place.
func TestNoWindow(t *testing.T) {
	for _, one := range []bool{false, true} {
		_, y := manualPair(ClientSpecs(small), ServerSpecs(small))
		y.near = true
		s, err := NewServer(ServerConfig{Geometry: small, OneAtATime: one})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(y); err != nil {
			t.Fatal(err)
		}
		if near := s.conns[0].window != nil; near == one {
			t.Errorf("one at a time %v: in place %v", one, near)
		}
	}
}

// TestTornWindow stops the stores of replies in place at every byte. The client must not take one
// before it is whole, and must take it then.
func TestTornWindow(t *testing.T) {
	for n := 0; ; n++ {
		w := worldOf(Config{Mode: Reply}, 2, true)
		w.send()
		for len(w.x.queue) > 0 {
			w.x.take()
		}
		mem := w.x.Region(clientReplies)
		before := slices.Clone(mem)
		for w.s.Poll(1) > 0 {
		}
		after := slices.Clone(mem)
		copy(mem[n:], before[n:])
		w.c.Poll(1)
		taken := w.ended[0]+w.ended[1] == 2
		if whole := bytes.Equal(mem, after); taken != whole || w.bad != nil {
			t.Fatalf("%d of %d bytes: taken %v, %v", n, len(mem), taken, w.bad)
		}
		if n == len(mem) {
			return
		}
	}
}
