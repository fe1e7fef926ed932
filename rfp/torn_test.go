package rfp

import (
	"bytes"
	"testing"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// TestTornRequest stops the WRITE of a request at every byte, over the older messages of a slot
// that leave the most alike bytes. The server must not take it before it is whole.
func TestTornRequest(t *testing.T) {
	g := Geometry{Slots: 1, Request: 128, Response: 128}
	for _, sum := range []bool{false, true} {
		for _, old := range []int{4, 20, 61, 124} {
			for _, size := range []int{4, 20, 61, 124} {
				tornRequest(t, g, sum, old, size)
			}
		}
	}
}

func tornRequest(t *testing.T, g Geometry, sum bool, old, size int) {
	t.Helper()
	s, err := NewServer(ServerConfig{Geometry: g, Checksum: sum})
	if err != nil {
		t.Fatal(err)
	}
	_, y := manualPair(ClientSpecs(g), ServerSpecs(g))
	if err := s.Serve(y); err != nil {
		t.Fatal(err)
	}
	c := s.conns[0]
	message := func(seq uint32, n int, fill byte) []byte {
		mem := onesided.Memory(stride(g.Request))
		putEntry(mem[headBytes:], n-entryBytes, 1)
		copy(mem[headBytes+entryBytes:], bytes.Repeat([]byte{fill}, n-entryBytes))
		h := head{seq: seq, size: entrySize(n - entryBytes), count: 1}
		if sum {
			h.flags |= flagSum
		}
		finish(mem, c.nonce, &h)
		return mem[:messageBytes(h.size)]
	}
	before, after := message(1, old, 'o'), message(2, size, 'n')
	for n := range len(after) + 1 {
		clear(c.requests)
		copy(c.requests, before)
		copy(c.requests[:n], after)
		c.expect[0] = 2
		m := s.Next()
		if len(s.conns) == 0 {
			t.Fatalf("a message of %d bytes over one of %d, cut at %d, ended the link", size, old, n)
		}
		whole := bytes.Equal(c.requests[:len(after)], after)
		if (m != nil) != whole {
			t.Fatalf("a message of %d bytes over one of %d, cut at %d of %d: taken %v",
				size, old, n, len(after), m != nil)
		}
	}
}

// TestTornReply stops the WRITE of a reply at every byte. The client must not take it before it is
// whole, and must take it then.
func TestTornReply(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(Config{Mode: Reply}, 2)
		w.send()
		for len(w.x.queue) > 0 {
			w.x.take()
		}
		for w.s.Poll(1) > 0 {
		}
		for len(w.y.queue) > 1 {
			w.y.take()
		}
		op := w.y.queue[0]
		from := w.y.mem[op.Local][op.At : op.At+op.Size]
		to := w.x.mem[op.Remote][op.To : op.To+op.Size]
		copy(to[:n], from)
		w.c.Poll(1)
		taken := w.ended[0]+w.ended[1] == 2
		if whole := bytes.Equal(to, from); taken != whole {
			t.Fatalf("%d of %d bytes: taken %v", n, op.Size, taken)
		}
		if n == op.Size {
			return
		}
	}
}

// FuzzResponse gives a client any bytes where its responses and its replies come from. Whatever the
// server does, each call ends once and the client survives.
func FuzzResponse(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x08\x00\x00\x00\x01"), true, false)
	f.Add([]byte("\x01\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x03"),
		true, true)
	f.Fuzz(func(t *testing.T, data []byte, fixTail, reply bool) {
		cfg := Config{R: 2}
		if reply {
			cfg.Mode = Reply
		}
		w := newWorld(cfg, 2)
		w.bad = nil
		w.send()
		g := w.c.cfg.Geometry
		mem, at := w.y.Region(serverResponses), g.responseAt(0)
		if reply {
			mem, at = w.x.Region(clientReplies), g.replyAt(0)
		}
		mem = mem[at : at+stride(g.Response)]
		copy(mem, data)
		h := parseHead(onesided.Load(mem, 0), onesided.Load(mem, 8))
		if fixTail && h.size <= g.Response {
			onesided.Store(mem, headBytes+(h.size+7)&^7,
				tail(w.c.control.nonce, &h, mem[headBytes:headBytes+h.size]))
		}
		for range 20 {
			w.c.Poll(1)
			for len(w.x.queue) > 0 {
				w.x.take()
			}
		}
		_ = w.c.Close()
		for i, n := range w.ended {
			if n != 1 && i < w.sent {
				t.Fatalf("call %d ended %d times", i, n)
			}
		}
	})
}

// FuzzControl gives a client any control block.
func FuzzControl(f *testing.F) {
	f.Add(make([]byte, controlBytes))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := Geometry{Slots: 2, Request: 64, Response: 64}
		x, y := manualPair(ClientSpecs(g), ServerSpecs(g))
		c, err := NewClient(x, Config{Geometry: g})
		if err != nil {
			t.Fatal(err)
		}
		copy(y.Region(serverResponses)[:controlBytes], data)
		for range 3 {
			c.Poll(1)
			for len(x.queue) > 0 {
				x.take()
			}
		}
		if c.Ready() && c.control.geometry != g {
			t.Error("a client works with another geometry")
		}
	})
}
