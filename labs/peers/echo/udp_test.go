package echo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakePackets is a datagram socket without a network.
type fakePackets struct {
	in, out   [][]byte
	recvs     int         // calls of Recv that gave a datagram
	full      func() bool // so Send takes nothing; nil: never
	fail      error       // of Send
	lost      func() bool // so a datagram is sent and does not come; nil: never
	closed    int
	farewells int          // empty datagrams that were sent
	to        *fakePackets // gets what is sent; nil: out keeps it
}

func (f *fakePackets) Recv(b []byte) (int, bool, error) {
	if len(f.in) == 0 {
		return 0, false, nil
	}
	n := copy(b, f.in[0])
	f.in = f.in[1:]
	f.recvs++
	return n, true, nil
}

func (f *fakePackets) Send(b []byte) (bool, error) {
	switch {
	case f.fail != nil:
		return false, f.fail
	case len(b) == 0:
		f.farewells++
	case f.full != nil && f.full():
		return false, nil
	case f.lost != nil && f.lost():
	case f.to != nil:
		f.to.in = append(f.to.in, slices.Clone(b))
	default:
		f.out = append(f.out, slices.Clone(b))
	}
	return true, nil
}

func (f *fakePackets) Close() error { f.closed++; return nil }

// pairOfPackets is two sockets that are connected with each other.
func pairOfPackets() (a, b *fakePackets) {
	a, b = &fakePackets{}, &fakePackets{}
	a.to, b.to = b, a
	return a, b
}

// TestUDPPacks: messages arrive whole and in order, however many fit into a datagram, and while
// the sockets take nothing now and then.
func TestUDPPacks(t *testing.T) {
	for _, most := range []int{0, 1, 40, 3000, udpMaxSize} {
		rng := rand.New(rand.NewPCG(uint64(most), 1))
		a, b := pairOfPackets()
		a.full = func() bool { return rng.IntN(3) == 0 }
		b.full = a.full
		client, server := newUDPPipe(a), newUDPPipe(b)
		const total = 500
		var want [][]byte
		got := 0
		check := func(m rawMessage) error {
			if m.typ != echoType || m.id != uint64(got) || !bytes.Equal(m.body, want[got]) {
				t.Fatalf("at most %d bytes: response %d, type %d, %d bytes; want %d, %d bytes",
					most, m.id, m.typ, len(m.body), got, len(want[got]))
			}
			got++
			return nil
		}
		for steps := 0; got < total; steps++ {
			if steps == 1e5 {
				t.Fatalf("at most %d bytes: %d of %d responses", most, got, total)
			}
			for n := rng.IntN(300); n > 0 && len(want) < total; n-- {
				body := make([]byte, rng.IntN(most+1))
				if n == 1 {
					body = make([]byte, most)
				}
				for i := range body {
					body[i] = byte(rng.Uint32())
				}
				client.add(rawMessage{echoType, uint64(len(want)), body})
				want = append(want, body)
			}
			_, err := client.step(check)
			if _, serr := server.serveStep(echoHandlers); err != nil || serr != nil {
				t.Fatal(err, serr)
			}
			for _, d := range slices.Concat(a.in, b.in) {
				if len(d) > udpDatagram || len(d) < rawHeader {
					t.Fatalf("a datagram of %d bytes", len(d))
				}
			}
		}
	}
}

// TestUDPOneDatagram: what is ready travels in one datagram if it fits, else in few.
func TestUDPOneDatagram(t *testing.T) {
	const fit = udpDatagram / (rawHeader + 32)
	for messages, want := range map[int]int{1: 1, 60: 1, fit: 1, fit + 1: 2, 512: 3} {
		a, b := pairOfPackets()
		client := newUDPPipe(a)
		for id := range uint64(messages) {
			client.add(rawMessage{echoType, id, Payload(32)})
		}
		busy, err := client.step(nil)
		if !busy || err != nil || len(b.in) != want {
			t.Fatalf("%d messages: busy %v, %v, %d datagrams, want %d", messages, busy, err,
				len(b.in), want)
		}
		busy, err = newUDPPipe(b).serveStep(echoHandlers)
		if !busy || err != nil || len(a.in) != want || b.recvs != want {
			t.Errorf("%d messages: busy %v, %v, %d datagrams back, want %d", messages, busy, err,
				len(a.in), want)
		}
	}
}

// TestUDPMerges: many small datagrams that wait are answered in one.
func TestUDPMerges(t *testing.T) {
	f := &fakePackets{}
	for id := range uint64(udpBurst + 3) {
		f.in = append(f.in, bytesOf(32, echoType, id, Payload(32)))
	}
	sent := slices.Concat(f.in...)
	p := newUDPPipe(f)
	for i, want := range []bool{true, true, false} {
		if busy, err := p.serveStep(echoHandlers); busy != want || err != nil {
			t.Errorf("step %d: busy %v, %v", i, busy, err)
		}
	}
	if len(f.out) != 2 || !bytes.Equal(slices.Concat(f.out...), sent) {
		t.Errorf("%d datagrams, %d bytes of %d", len(f.out), len(slices.Concat(f.out...)), len(sent))
	}
}

// TestUDPFull: while the socket takes nothing, nothing is received, and memory stays as it is.
func TestUDPFull(t *testing.T) {
	full := true
	f := &fakePackets{full: func() bool { return full }}
	for id := range uint64(1000) {
		f.in = append(f.in, bytesOf(0, echoType, id, nil))
	}
	calls := 0
	answer := Payload(5000)
	handlers := []rawHandler{echoType: func([]byte) []byte { calls++; return answer }}
	p := newUDPPipe(f)
	for range 2000 {
		if _, err := p.serveStep(handlers); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 2 || len(p.out) != 2*(5000+rawHeader) { // the second one shows that the first is full
		t.Errorf("%d requests handled, %d bytes wait", calls, len(p.out))
	}
	full = false
	for range 2000 {
		if _, err := p.serveStep(handlers); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1000 || len(f.out) != 1000 || len(p.out) != 0 {
		t.Errorf("afterwards %d requests handled, %d datagrams, %d bytes wait", calls, len(f.out),
			len(p.out))
	}
}

// TestUDPBrokenRules: what a datagram may hold that is no request.
func TestUDPBrokenRules(t *testing.T) {
	good := bytesOf(3, echoType, 7, []byte("abc"))
	after := func(b []byte) []byte { return append(slices.Clone(good), b...) }
	for name, tt := range map[string]struct {
		sent  []byte
		calls int
		want  string // in the error; empty: none
	}{
		"right":                {good, 1, ""},
		"two":                  {after(good), 2, ""},
		"as large as may be":   {bytesOf(udpMaxSize, echoType, 8, make([]byte, udpMaxSize)), 1, ""},
		"farewell":             {nil, 0, "EOF"},
		"a byte":               {[]byte{1}, 0, "ends in a header, after 1 bytes"},
		"part of a header":     {after(good[:15]), 1, "ends in a header, after 15 bytes"},
		"part of a body":       {after(good[:18]), 1, "message of 3 bytes, and 2 are left"},
		"less than was said":   {bytesOf(4, echoType, 7, []byte("abc")), 0, "message of 4 bytes, and 3"},
		"more than was said":   {bytesOf(2, echoType, 7, []byte("abc")), 1, "after 1 bytes"},
		"half of 32 bits":      {bytesOf(1<<31, echoType, 8, nil), 0, "message of 2147483648 bytes"},
		"largest number":       {bytesOf(1<<32-1, echoType, 8, nil), 0, "message of 4294967295 bytes"},
		"too large":            {make([]byte, udpDatagram+1), 0, "more than 8952 bytes"},
		"far too large":        {make([]byte, 60_000), 0, "more than 8952 bytes"},
		"type without handler": {bytesOf(0, 0, 8, nil), 0, "type 0"},
		"type out of range":    {after(bytesOf(0, 2, 8, nil)), 1, "type 2"},
		"largest type":         {bytesOf(0, 1<<32-1, 8, nil), 0, "type 4294967295"},
	} {
		f := &fakePackets{in: [][]byte{tt.sent}}
		calls := 0
		_, err := newUDPPipe(f).serveStep(
			[]rawHandler{echoType: func(b []byte) []byte { calls++; return b }})
		if calls != tt.calls || (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
}

// FuzzUDPDatagram: any datagram is answered with what it asks for, or refused.
func FuzzUDPDatagram(f *testing.F) {
	f.Add(bytesOf(3, echoType, 7, []byte("abc")))
	f.Add(append(bytesOf(0, echoType, 7, nil), bytesOf(1<<32-1, echoType, 8, nil)...))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &fakePackets{in: [][]byte{b}}
		_, err := newUDPPipe(s).serveStep(echoHandlers)
		if err == nil && (len(s.out) != 1 || !bytes.Equal(s.out[0], b)) {
			t.Errorf("%x was answered with %x", b, s.out)
		}
		if err != nil && len(s.out) > 0 {
			t.Errorf("%x was refused (%v), and answered", b, err)
		}
	})
}

// TestUDPTooLarge: sizes that no datagram carries are refused, by both sides.
func TestUDPTooLarge(t *testing.T) {
	for _, z := range []Sizes{{Request: udpMaxSize + 1}, {Response: udpMaxSize + 1}} {
		_, err := dialUDPEcho(t.Context(), "127.0.0.1:1", z)
		if !errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), "8937 bytes") {
			t.Errorf("%+v: dial: %v", z, err)
		}
		if rawUnfit != "" {
			continue
		}
		if _, err = listenUDPEcho(z); !errors.Is(err, errTooLarge) {
			t.Errorf("%+v: listen: %v", z, err)
		}
	}
	f := &fakePackets{}
	_, err := newUDPConn(f).NewCall()(t.Context(), Payload(udpMaxSize+1))
	if !errors.Is(err, errTooLarge) || len(f.out) > 0 {
		t.Errorf("a call: %v, %d datagrams", err, len(f.out))
	}
}

// TestUDPSendFails: the error comes out.
func TestUDPSendFails(t *testing.T) {
	boom := errors.New("boom")
	f := &fakePackets{in: [][]byte{bytesOf(0, echoType, 1, nil)}, fail: boom}
	if _, err := newUDPPipe(f).serveStep(echoHandlers); err != boom {
		t.Error(err)
	}
}

// TestUDPBadResponses: a client believes only the response to what it asked.
func TestUDPBadResponses(t *testing.T) {
	first := bytesOf(8, echoType, 1, Payload(8))
	for name, tt := range map[string]struct {
		sent []byte
		want string
	}{
		"right":         {first, ""},
		"of another":    {bytesOf(8, echoType, 2, Payload(8)), "response 2, and 1 is awaited"},
		"twice":         {append(slices.Clone(first), first...), "response 1"},
		"another type":  {bytesOf(8, echoType+1, 1, Payload(8)), "type 2"},
		"a lying size":  {bytesOf(1<<31, echoType, 1, Payload(8)), "2147483648 bytes"},
		"farewell":      {nil, "EOF"},
		"not all of it": {first[:20], "message of 8 bytes, and 4"},
		"garbage":       {[]byte("garbage"), "ends in a header"},
	} {
		f := &fakePackets{in: [][]byte{tt.sent}}
		c := newUDPConn(f)
		response, err := c.NewCall()(t.Context(), Payload(8))
		same := bytes.Equal(response, Payload(8)) && bytes.Equal(slices.Concat(f.out...), first)
		if tt.want == "" && (err != nil || !same) {
			t.Errorf("%s: %v, response %x, sent %x", name, err, response, f.out)
		}
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err := c.Close(); err != nil || f.closed != 1 || f.farewells != 1 {
			t.Errorf("%s: %v, closed %d times, %d farewells", name, err, f.closed, f.farewells)
		}
	}
}

// fakeClock adds step at every reading.
type fakeClock struct {
	at   time.Time
	step time.Duration
}

func (k *fakeClock) now() time.Time { k.at = k.at.Add(k.step); return k.at }

// TestUDPLost: a lost datagram ends the run after the timeout, not before, and says how many
// requests it took. The others are answered meanwhile.
func TestUDPLost(t *testing.T) {
	for _, way := range []string{"request", "response"} {
		a, b := pairOfPackets()
		sent := 0
		lost := func() bool { sent++; return sent == 2 }
		if way == "request" {
			a.lost = lost
		} else {
			b.lost = lost
		}
		server, c := newUDPPipe(b), newUDPConn(a)
		clock := fakeClock{step: 50 * time.Millisecond}
		c.now = clock.now
		for id := range uint64(3) {
			c.Send(id, Payload(udpMaxSize)) // a datagram each
		}
		var got []uint64
		var err error
		polls := 0
		for ; err == nil && polls < 1e6; polls++ {
			_, err = c.Poll(func(id uint64, _ []byte) error { got = append(got, id); return nil })
			if _, err := server.serveStep(echoHandlers); err != nil {
				t.Fatal(err)
			}
		}
		if !errors.Is(err, errLost) || !strings.Contains(err.Error(), "1 requests") ||
			!slices.Equal(got, []uint64{0, 2}) {
			t.Errorf("a lost %s: %v, responses %v", way, err, got)
		}
		if after := clock.at.Sub(time.Time{}.Add(clock.step)); after != lossTimeout {
			t.Errorf("a lost %s: noticed after %v, want %v", way, after, lossTimeout)
		}
	}
}

// TestUDPQuiet: time in which no response is due, and pauses of the process, are no loss.
func TestUDPQuiet(t *testing.T) {
	a, b := pairOfPackets()
	server, c := newUDPPipe(b), newUDPConn(a)
	clock := fakeClock{step: time.Hour}
	c.now = clock.now
	got := func(uint64, []byte) error { return nil }
	for range 3 {
		for range 100 * idleSteps {
			if busy, err := c.Poll(got); busy || err != nil {
				t.Fatal(busy, err)
			}
		}
		c.Send(1, Payload(8))
		for range 20 * idleSteps { // some readings of the clock, each an hour later
			if _, err := c.Poll(got); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := server.serveStep(echoHandlers); err != nil {
			t.Fatal(err)
		}
		if busy, err := c.Poll(got); !busy || err != nil || c.flying != 0 {
			t.Fatalf("busy %v, %v, %d in flight", busy, err, c.flying)
		}
	}
}

// TestUDPFarewell: an empty datagram ends the server's pipe.
func TestUDPFarewell(t *testing.T) {
	f := &fakePackets{in: [][]byte{bytesOf(0, echoType, 1, nil), {}}}
	p := newUDPPipe(f)
	if _, err := p.serveStep(echoHandlers); err != io.EOF {
		t.Error(fmt.Sprint(err))
	}
}
