package grpcerpc

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// noLoop is the loop of pipes that run in none.
type noLoop struct{}

func (noLoop) Post(func(*erpc.Rpc)) error { return nil }
func (noLoop) Do(func(*erpc.Rpc)) error   { return nil }
func (noLoop) Lead(func() bool) bool      { return false }
func (noLoop) Waits(int)                  {}
func (noLoop) Turn(bool)                  {}

// talker returns a stream of a pipe that has a message of n bytes to send.
func talker(p *pipe, n int) *clientStream {
	s := &clientStream{pipe: p, ctx: context.Background(),
		in: newInbox(1<<20, window), out: newOutbox(),
		info: &callInfo{method: "/s/m", rare: ordinary}}
	s.changed.L = &s.mu
	memory := getBuffer()
	*memory = append((*memory)[:0], bytes.Repeat([]byte{'m'}, n)...)
	s.out.putMessage(frame.Message, memory)
	p.ready.add(s)
	return s
}

// sections returns the streams of an exchange, in order, and how many bytes of frames each has.
func sections(t *testing.T, x *exchange) (ids []uint64, sizes []int) {
	t.Helper()
	if x == nil {
		t.Fatal("no exchange")
	}
	parsed, err := frame.ParseExchange(*x.memory)
	if err != nil {
		t.Fatal(err)
	}
	for rest := parsed.Sections; len(rest) > 0; {
		var s frame.Section
		if s, rest, err = frame.NextSection(rest); err != nil {
			t.Fatal(err)
		}
		ids, sizes = append(ids, s.Stream), append(sizes, len(s.Frames))
	}
	return ids, sizes
}

// TestPipeGathers: what all streams have to say is in one exchange, and without anything to say
// there is one only while somebody waits and none is under way.
func TestPipeGathers(t *testing.T) {
	p := newPipe(&link{}, noLoop{})
	var streams []*clientStream
	for range 64 {
		streams = append(streams, talker(p, 32))
	}
	ids, _ := sections(t, p.build())
	if len(ids) != 64 || !slices.IsSorted(ids) || ids[0] != 1 {
		t.Fatalf("streams %v in the exchange", ids)
	}
	if p.build() != nil {
		t.Fatal("an exchange that says nothing, when nobody waits")
	}
	streams[5].count(true)
	if ids, _ := sections(t, p.build()); len(ids) != 0 {
		t.Fatalf("streams %v have something to say", ids)
	}
	p.calls.Store(1)
	if p.build() != nil {
		t.Fatal("a second exchange that says nothing")
	}
	streams[5].finishWith(nil)
	if n := p.waiting.Load(); n != 0 {
		t.Fatalf("%d streams wait when the only one that did has ended", n)
	}
}

// TestPipeTurns: a stream with more to say than an exchange takes shares the next one with others,
// and its window bounds it.
func TestPipeTurns(t *testing.T) {
	p := newPipe(&link{}, noLoop{})
	talker(p, 1<<20)
	first, size := sections(t, p.build())
	talker(p, 100)
	second, _ := sections(t, p.build())
	if !slices.Equal(first, []uint64{1}) || size[0] > maxBatch+slack+100 {
		t.Errorf("first: streams %v, %v bytes", first, size)
	}
	if len(second) < 3 || second[1] != 2 {
		t.Errorf("second: streams %v", second)
	}
	sent := 0
	for x := p.build(); x != nil && sent < 100; x = p.build() {
		sent++
		if p.waiting.Load() > 0 { // it is blocked, so an exchange stays at the server
			p.calls.Store(maxCalls)
		}
	}
	if s := p.streams[1]; s.out.sent != window || !s.out.blocked() || !s.counted {
		t.Errorf("%d bytes sent, blocked %v", s.out.sent, s.out.blocked())
	}
}

// TestPipeReplies: replies are taken in order, whatever the order they come in, and those that
// cannot be end the pipe.
func TestPipeReplies(t *testing.T) {
	p := newPipe(&link{}, noLoop{})
	p.calls.Store(maxCalls) // it does not send
	s := talker(p, 1)
	p.build()
	reply := func(seq uint64, text string) *frame.Reply {
		payload := append([]byte{byte(len(text))}, text...)
		sec := frame.Section{Stream: 1, Frames: frame.AppendFrame(nil, frame.Message, payload)}
		return &frame.Reply{Seq: seq, Sections: sec.Append(nil)}
	}
	for _, y := range []*frame.Reply{reply(2, "c"), reply(1, "b"), reply(0, "a")} {
		x := &exchange{pipe: p, memory: getBuffer()}
		p.calls.Add(1)
		x.onReply(y.Append(nil), nil)
	}
	var got string
	for m, ok := s.in.take(); ok; m, ok = s.in.take() {
		got += string(m.data)
	}
	if got != "abc" || len(p.held) != 0 || p.failure() != nil {
		t.Errorf("messages %q, %d replies held, %v", got, len(p.held), p.failure())
	}
}

// TestPipeUntaken: streams have certainly not begun if the server has taken nothing of the exchange
// that opens them, or it never ran; nothing is known of the others.
func TestPipeUntaken(t *testing.T) {
	status := frame.Status{Code: uint64(codes.Unavailable)}
	gone, untaken := frame.Reply{Gone: true, Status: status}, frame.Reply{Gone: true, Status: status,
		Untaken: true}
	for _, v := range []struct {
		answer []byte
		err    error
		want   bool
	}{
		{gone.Append(nil), nil, false},
		{untaken.Append(nil), nil, true},
		{nil, erpc.ErrDraining, true},
	} {
		p := newPipe(&link{}, noLoop{})
		p.calls.Store(maxCalls) // it does not send
		before := talker(p, 1)
		p.build()
		streams := []*clientStream{talker(p, 1), talker(p, 1)}
		x := p.build()
		later := talker(p, 1)
		p.build()
		p.calls.Add(1)
		x.onReply(v.answer, v.err)
		if before.notRun || later.notRun {
			t.Errorf("%v: a stream of another exchange has not begun", v)
		}
		for _, s := range streams {
			if s.notRun != v.want {
				t.Errorf("%v: a stream has not begun: %v", v, s.notRun)
			}
		}
	}
}

// TestStreamAfterEnd: a stream that comes when its connection has ended, of which its pipe does not
// know yet, is refused as one that never began.
func TestStreamAfterEnd(t *testing.T) {
	c := &serverConn{server: new(Server), over: true}
	c.pipe.conn = c
	opens := frame.Section{Stream: 1, Open: new(frame.Head)}
	c.pipe.hear(&opens)
	c.pipe.hear(&frame.Section{Stream: 1}) // what follows, which is no other stream
	sec, rest, err := frame.NextSection(c.pipe.refused)
	if err != nil || len(rest) > 0 || !sec.NotRun || !sec.End || sec.Stream != 1 {
		t.Errorf("refused by %+v, %v", sec, err)
	}
}

func FuzzServiceConfig(f *testing.F) {
	f.Add(`{"methodConfig": [{"name": [{"service": "s"}], "timeout": "1.5s", "retryPolicy": {` +
		`"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, ` +
		`"retryableStatusCodes": ["UNAVAILABLE", 14]}}], "loadBalancingConfig": [{"pick_first": {}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parseServiceConfig(text); err == nil && c.of("/s/m") == nil {
			t.Fatal("no config of a method")
		}
	})
}
