package rfp

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/model"
)

// TestTorn stops the writer of a response at every byte, and lets a reader see two moments of it,
// split at every word, either half first. Each response that it takes must be whole.
func TestTorn(t *testing.T) {
	const nonce, size = 77, 45
	slot := func(seq uint32, fill byte) []byte {
		mem := onesided.Memory(stride(size))
		for i := range size {
			mem[headBytes+i] = fill
		}
		finish(mem, nonce, &head{seq: seq, size: size, count: 1})
		return mem
	}
	old, done := slot(4, 'o'), slot(5, 'n')
	total := messageBytes(size)
	c := &Client{control: control{nonce: nonce}}
	moment := func(n int) []byte { // n bytes after the first word are there, or all
		mem := append([]byte(nil), old...)
		if n > total-8 {
			return append(mem[:0], done...)
		}
		copy(mem[8:8+n], done[8:])
		return mem
	}
	taken := 0
	for before := 0; before <= total-7; before++ {
		for after := before; after <= total-7; after++ {
			a, b := moment(before), moment(after)
			for k := 0; k <= total; k += 8 {
				for _, seen := range [][]byte{
					append(append([]byte(nil), a[:k]...), b[k:]...),
					append(append([]byte(nil), b[:k]...), a[k:]...),
				} {
					h := parseHead(onesided.Load(aligned(seen), 0), onesided.Load(aligned(seen), 8))
					if h.seq != 5 || !c.whole(&h, seen) {
						continue
					}
					taken++
					if string(seen[8:total]) != string(done[8:total]) {
						t.Fatalf("taken with %d then %d bytes, split at %d", before, after, k)
					}
				}
			}
		}
	}
	if taken == 0 {
		t.Error("nothing was taken")
	}
}

func aligned(b []byte) []byte {
	mem := onesided.Memory((len(b) + 7) &^ 7)
	copy(mem, b)
	return mem
}

// TestModeSwitch goes through all orders of the steps of a client that changes a message to a
// reply and of a server that ends it. The client must get the result in each.
func TestModeSwitch(t *testing.T) {
	type state struct{ word, result, replied, fetched bool }
	client := []func(*state){
		func(s *state) { s.word = true },
		func(s *state) { s.fetched = s.fetched || s.result }, // the READ behind the word
	}
	server := []func(*state){
		func(s *state) { s.result = true },
		func(s *state) { s.replied = s.word },
	}
	explore := func(client, server []func(*state)) (lost int) {
		var walk func(s state, i, j int)
		walk = func(s state, i, j int) {
			if i == len(client) && j == len(server) {
				if !s.replied && !s.fetched {
					lost++
				}
				return
			}
			if i < len(client) {
				n := s
				client[i](&n)
				walk(n, i+1, j)
			}
			if j < len(server) {
				n := s
				server[j](&n)
				walk(n, i, j+1)
			}
		}
		walk(state{}, 0, 0)
		return lost
	}
	if n := explore(client, server); n != 0 {
		t.Errorf("the result is lost in %d orders", n)
	}
	if explore(client[:1], server) == 0 || explore(client, []func(*state){server[1], server[0]}) == 0 {
		t.Error("the search finds no fault where there is one")
	}
}

// TestSwitchUnderWay holds the same for the code: handlers whose time sweeps over that of a READ.
func TestSwitchUnderWay(t *testing.T) {
	asked := uint64(0)
	for work := time.Duration(0); work < 30*time.Microsecond; work += 137 * time.Nanosecond {
		for _, paper := range []bool{true, false} {
			r := newRig(t, model.Paper(), 1, ServerConfig{})
			r.work = work
			c := r.dial(Config{Paper: paper, R: 1})
			l := &load{n: 12, window: 3}
			r.start(c, l)
			r.until("end of all calls", func() bool { return l.ended == l.n })
			r.check(l)
			if l.failed > 0 {
				t.Fatal(l.lastErr)
			}
			asked += c.Stats().Asked
		}
	}
	if asked == 0 {
		t.Error("no message changed its mode under way")
	}
}

// TestHybrid holds that slow handlers end up with replies and quick ones with fetching.
func TestHybrid(t *testing.T) {
	for _, paper := range []bool{false, true} {
		r := newRig(t, model.Paper(), 1, ServerConfig{})
		c := r.dial(Config{Paper: paper})
		for i, work := range []time.Duration{0, 30, 0, 30} {
			r.work = work * time.Microsecond
			l := &load{n: 40, window: 1, first: uint64(1000 * i)}
			r.start(c, l)
			r.until("end of all calls", func() bool { return l.ended == l.n })
			if want := []Mode{Fetch, Reply}[i%2]; c.Mode(1) != want {
				t.Errorf("paper=%v, handlers of %v us: mode %v", paper, int(work), c.Mode(1))
			}
		}
	}
}

// TestWrap goes over the end of the sequences.
func TestWrap(t *testing.T) {
	for name, cfg := range configs() {
		r := newRig(t, model.Paper(), 1, ServerConfig{FirstSequence: 1<<32 - 20, Checksum: cfg.Checksum})
		c := r.dial(cfg)
		l := &load{n: 400, window: 4}
		r.start(c, l)
		r.until("end of all calls", func() bool { return l.ended == l.n })
		r.check(l)
		if l.failed > 0 || c.slots[0].seq > 1000 {
			t.Errorf("%s: %d failed (%v), sequence %d", name, l.failed, l.lastErr, c.slots[0].seq)
		}
	}
}

// TestEnds holds that each call ends once when a side dies, a queue pair breaks, or a deadline
// passes, at many moments.
func TestEnds(t *testing.T) {
	for steps := range 150 {
		for what, fault := range map[string]func(*rig, *rigClient){
			"server dies": func(r *rig, _ *rigClient) { r.machine.Kill() },
			"broken":      func(_ *rig, c *rigClient) { c.link.Break(onesided.ErrPeer) },
			"closed":      func(_ *rig, c *rigClient) { _ = c.Close() },
		} {
			r := newRig(t, model.Paper(), 1, ServerConfig{})
			c := r.dial(Config{})
			l := &load{n: 40, window: 4}
			r.start(c, l)
			for range 20 + 3*steps {
				r.net.Step()
			}
			fault(r, c)
			begun := l.begun
			c.every = func() {}
			c.thread.Wake()
			r.until(what+": end of all calls", func() bool { return l.ended == begun })
			r.check(l)
			if l.failed > 0 && !errors.Is(l.lastErr, onesided.ErrPeer) && !errors.Is(l.lastErr, ErrClosed) {
				t.Errorf("%s: %v", what, l.lastErr)
			}
		}
	}
	r := newRig(t, model.Paper(), 1, ServerConfig{})
	r.work = 50 * time.Microsecond
	c := r.dial(Config{})
	l := &load{n: 20, window: 2, deadline: 20 * time.Microsecond}
	r.start(c, l)
	r.until("end of all calls", func() bool { return l.ended == l.n })
	r.check(l)
	if l.failed == 0 || !errors.Is(l.lastErr, ErrDeadline) {
		t.Errorf("%d calls failed: %v", l.failed, l.lastErr)
	}
}

// TestEpoch holds that a client notices another life of the server, and another geometry.
func TestEpoch(t *testing.T) {
	r := newRig(t, model.Paper(), 1, ServerConfig{Epoch: 5})
	c := r.dial(Config{Epoch: 6})
	r.until("error", func() bool { return c.Err() != nil })
	if !errors.Is(c.Err(), ErrEpoch) || c.Epoch() != 5 {
		t.Errorf("%v, epoch %d", c.Err(), c.Epoch())
	}
}

// TestHostile lets one client scribble over all it may write to. The other's calls are answered.
func TestHostile(t *testing.T) {
	for seed := range uint64(30) {
		r := newRig(t, model.Paper(), seed, ServerConfig{})
		bad, good := r.dial(Config{}), r.dial(Config{})
		r.until("server", bad.Ready)
		mem := bad.other.Region(serverRequests)
		rng := r.net.Rand()
		l := &load{n: 100, window: 3}
		r.start(good, l)
		var scribble func()
		scribble = func() {
			if l.ended == l.n {
				return
			}
			r.net.At(r.net.Now().Add(200*time.Nanosecond), scribble)
			slot := small.requestAt(rng.IntN(small.Slots))
			h := head{seq: 1 + uint32(rng.IntN(3)), size: rng.IntN(300), flags: uint8(rng.IntN(6)),
				count: rng.IntN(80)}
			first, second := h.words()
			onesided.Store(mem, slot+8, second)
			onesided.Store(mem, slot+headBytes, rng.Uint64())
			if end := slot + headBytes + (h.size+7)&^7; h.size <= small.Request {
				onesided.Store(mem, end, tail(bad.control.nonce, &h, nil))
			}
			onesided.Store(mem, slot, first)
			r.thread.Wake()
		}
		scribble()
		r.until("end of all calls", func() bool { return l.ended == l.n })
		if l.ended != l.n || l.failed > 0 {
			t.Fatalf("seed %d: %d calls of another client ended, %d failed: %v", seed, l.ended,
				l.failed, l.lastErr)
		}
		if r.server.Stats().Malformed == 0 {
			t.Errorf("seed %d: nothing was found malformed", seed)
		}
	}
}

// FuzzRequest gives the server any bytes in a client's region.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x08\x00\x00\x00\x01"), true)
	f.Fuzz(func(t *testing.T, data []byte, fixTail bool) {
		r := newRig(t, model.Paper(), 1, ServerConfig{})
		c := r.dial(Config{})
		mem := c.other.Region(serverRequests)
		copy(mem, data)
		h := parseHead(onesided.Load(mem, 0), onesided.Load(mem, 8))
		if fixTail && h.size <= small.Request {
			nonce := r.server.conns[0].nonce
			onesided.Store(mem, headBytes+(h.size+7)&^7, tail(nonce, &h, mem[headBytes:headBytes+h.size]))
		}
		r.server.Handle(1, func(req, resp []byte) ([]byte, error) { return append(resp, req...), nil })
		r.server.Poll(100)
	})
}

func ExampleSizer() {
	s := NewSizer(8, 10*time.Microsecond, 0.05)
	for range 3000 {
		s.Add(1, 5*time.Microsecond)
	}
	fmt.Println(s.Size())
	// Output: 4
}
