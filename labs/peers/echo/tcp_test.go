package echo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// fakeFD is a socket without a network. Each call moves at most as many bytes as most
// says, which may be none.
type fakeFD struct {
	in, out *bytes.Buffer
	ended   bool // the other side has closed
	most    func() int
	full    bool  // so Write takes nothing
	fail    error // of Write
	closed  int
}

func (f *fakeFD) Read(b []byte) (int, error) {
	if f.in.Len() == 0 && f.ended {
		return 0, io.EOF
	}
	n, _ := f.in.Read(b[:min(len(b), f.most())]) // it fails only if there is nothing
	return n, nil
}

func (f *fakeFD) Write(b []byte) (int, error) {
	if f.fail != nil {
		return 0, f.fail
	}
	if f.full {
		return 0, nil
	}
	return f.out.Write(b[:min(len(b), f.most())])
}

func (f *fakeFD) Close() error { f.closed++; return nil }

func always(n int) func() int { return func() int { return n } }

// bytesOf is a message as it travels, with a size that may be a lie.
func bytesOf(size, typ uint32, id uint64, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, size)
	b = binary.LittleEndian.AppendUint32(b, typ)
	return append(binary.LittleEndian.AppendUint64(b, id), body...)
}

var echoHandlers = []rawHandler{echoType: replier{}.reply}

// TestTCPSplits: messages arrive whole and in order, however reads and writes cut them.
func TestTCPSplits(t *testing.T) {
	for _, most := range []int{1, 2, 17, 5000, 1 << 20} {
		rng := rand.New(rand.NewPCG(uint64(most), 1))
		there, back := new(bytes.Buffer), new(bytes.Buffer)
		some := func() int { return rng.IntN(most + 1) }
		client := newTCPPipe(&fakeFD{in: back, out: there, most: some}, 1<<20, noBacklog)
		server := newTCPPipe(&fakeFD{in: there, out: back, most: some}, 1<<20, backlog)
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
		total := 30
		if most >= 5000 {
			total = 300
		}
		for steps := 0; got < total; steps++ {
			if steps == 1e6 {
				t.Fatalf("at most %d bytes: %d of %d responses", most, got, total)
			}
			if len(want) < total && rng.IntN(3) > 0 {
				body := make([]byte, rng.IntN(100))
				if most >= 5000 && len(want)%50 == 49 { // larger than the buffer
					body = make([]byte, 200_000)
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
		}
	}
}

// TestTCPOneReadOneWrite: what is there travels in one read, and the answers in one write.
func TestTCPOneReadOneWrite(t *testing.T) {
	calls := 0
	fd := &fakeFD{in: new(bytes.Buffer), out: new(bytes.Buffer)}
	fd.most = func() int { calls++; return 1 << 20 }
	for id := range uint64(100) {
		fd.in.Write(bytesOf(32, echoType, id, Payload(32)))
	}
	sent := slices.Clone(fd.in.Bytes())
	busy, err := newTCPPipe(fd, 1<<20, backlog).serveStep(echoHandlers)
	if !busy || err != nil || calls != 2 || !bytes.Equal(fd.out.Bytes(), sent) {
		t.Errorf("busy %v, %v, %d calls, %d bytes of %d", busy, err, calls, fd.out.Len(), len(sent))
	}
}

// TestTCPBusy: a step says whether anything moved, be it only a part.
func TestTCPBusy(t *testing.T) {
	fd := &fakeFD{in: new(bytes.Buffer), out: new(bytes.Buffer), most: always(20)}
	p := newTCPPipe(fd, 1<<20, backlog)
	fd.in.Write(bytesOf(8, echoType, 1, Payload(8)))
	for i, want := range []bool{true, true, true, false} { // 20 bytes come; 4, and 20 go; 4 go
		if busy, err := p.serveStep(echoHandlers); busy != want || err != nil {
			t.Errorf("step %d: busy %v, %v", i, busy, err)
		}
	}
	if fd.out.Len() != 24 {
		t.Errorf("%d bytes went", fd.out.Len())
	}
}

// TestTCPNeverEmpty: what is to be sent takes little memory although some of it always
// waits.
func TestTCPNeverEmpty(t *testing.T) {
	fd := &fakeFD{in: new(bytes.Buffer), out: new(bytes.Buffer)}
	p := newTCPPipe(fd, 1<<20, noBacklog)
	fd.most = func() int { return len(p.out) - p.sent - 1 }
	var want []byte
	for id := range uint64(3000) {
		p.add(rawMessage{echoType, id, Payload(84)})
		want = append(want, bytesOf(84, echoType, id, Payload(84))...)
		if _, err := p.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if cap(p.out) > 4096 || !bytes.Equal(fd.out.Bytes(), want[:len(want)-1]) {
		t.Errorf("%d bytes of memory, %d bytes sent of %d", cap(p.out), fd.out.Len(), len(want))
	}
}

// TestTCPBacklog: a client that does not read its answers is not read either, and takes
// no more memory than a backlog and one answer.
func TestTCPBacklog(t *testing.T) {
	fd := &fakeFD{in: new(bytes.Buffer), out: new(bytes.Buffer), most: always(1000), full: true}
	p := newTCPPipe(fd, 1<<20, backlog)
	for id := range uint64(1000) {
		fd.in.Write(bytesOf(0, echoType, id, nil))
	}
	calls, answer := 0, Payload(10_000)
	handlers := []rawHandler{echoType: func([]byte) []byte { calls++; return answer }}
	for range 1000 {
		if _, err := p.serveStep(handlers); err != nil {
			t.Fatal(err)
		}
	}
	want := backlog/(10_000+rawHeader) + 1
	if calls != want || len(p.in) != 64<<10 || fd.in.Len() == 0 {
		t.Errorf("%d requests handled, want %d; %d bytes to read into, %d not read",
			calls, want, len(p.in), fd.in.Len())
	}
	fd.most, fd.full = always(1<<20), false
	for range 1000 {
		if _, err := p.serveStep(handlers); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1000 || fd.out.Len() != 1000*(10_000+rawHeader) {
		t.Errorf("afterwards %d requests handled, %d bytes of answers", calls, fd.out.Len())
	}
}

// TestTCPBrokenRules: what a peer may send that is not a request, and how it may end.
func TestTCPBrokenRules(t *testing.T) {
	const limit = 1 << 20
	good := bytesOf(3, echoType, 7, []byte("abc"))
	large := bytesOf(limit+1, echoType, 8, nil)
	for name, tt := range map[string]struct {
		sent  []byte
		calls int
		want  string // in the error
		is    error
	}{
		"closed":                 {nil, 0, "", io.EOF},
		"closed after a request": {good, 1, "", io.EOF},
		"closed in a header":     {good[:5], 0, "", io.ErrUnexpectedEOF},
		"closed in a body":       {append(slices.Clone(good), good[:18]...), 1, "", io.ErrUnexpectedEOF},
		"more than was said":     {bytesOf(2, echoType, 7, []byte("abc")), 1, "", io.ErrUnexpectedEOF},
		"too large":              {slices.Concat(good, large), 1, "1048577 bytes", nil},
		"largest number":         {bytesOf(1<<32-1, echoType, 8, nil), 0, "4294967295 bytes", nil},
		"as large as may be":     {bytesOf(limit, echoType, 8, make([]byte, limit)), 1, "", io.EOF},
		"type without handler":   {bytesOf(0, 0, 8, nil), 0, "type 0", nil},
		"type out of range":      {bytesOf(0, 2, 8, nil), 0, "type 2", nil},
		"largest type":           {bytesOf(0, 1<<32-1, 8, nil), 0, "type 4294967295", nil},
	} {
		fd := &fakeFD{in: bytes.NewBuffer(tt.sent), out: new(bytes.Buffer), ended: true}
		fd.most = always(1000)
		p := newTCPPipe(fd, limit, backlog)
		calls := 0
		var err error
		for err == nil {
			_, err = p.serveStep([]rawHandler{echoType: func(b []byte) []byte { calls++; return b }})
		}
		if calls != tt.calls || tt.is != nil && err != tt.is || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
}

// TestTCPLieTakesNoMemory: a size is believed only as far as bytes come.
func TestTCPLieTakesNoMemory(t *testing.T) {
	sent := bytesOf(1<<29, echoType, 1, make([]byte, 100_000))
	fd := &fakeFD{in: bytes.NewBuffer(sent), out: new(bytes.Buffer), most: always(1 << 20)}
	p := newTCPPipe(fd, 1<<30, backlog)
	for range 1000 {
		if _, err := p.serveStep(echoHandlers); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.in) > 256<<10 || fd.in.Len() > 0 {
		t.Errorf("%d bytes of memory for 100000, %d not read", len(p.in), fd.in.Len())
	}
}

// TestTCPWriteFails: the error comes out.
func TestTCPWriteFails(t *testing.T) {
	boom := errors.New("boom")
	fd := &fakeFD{in: bytes.NewBuffer(bytesOf(0, echoType, 1, nil)), out: new(bytes.Buffer),
		most: always(100), fail: boom}
	if _, err := newTCPPipe(fd, 100, backlog).serveStep(echoHandlers); err != boom {
		t.Error(err)
	}
}

// TestTCPBadResponses: a client believes only the response to what it asked.
func TestTCPBadResponses(t *testing.T) {
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
		"nothing":       {nil, "EOF"},
		"not all of it": {first[:20], "unexpected EOF"},
	} {
		fd := &fakeFD{in: bytes.NewBuffer(tt.sent), out: new(bytes.Buffer), ended: true}
		fd.most = always(1000)
		c := newTCPConn(fd, Sizes{Request: 8, Response: 8})
		response, err := c.NewCall()(t.Context(), Payload(8))
		same := bytes.Equal(response, Payload(8)) && bytes.Equal(fd.out.Bytes(), first)
		if tt.want == "" && (err != nil || !same) {
			t.Errorf("%s: %v, response %x, sent %x", name, err, response, fd.out.Bytes())
		}
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err := c.Close(); err != nil || fd.closed != 1 {
			t.Errorf("%s: %v, closed %d times", name, err, fd.closed)
		}
	}
}
