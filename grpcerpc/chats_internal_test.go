package grpcerpc

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// chatLoop is a vacant loop in which an answer is ready once somebody runs it. It counts what it is
// told.
type chatLoop struct {
	noLoop
	answer  func()
	led     int
	waits   int
	last    bool // of Turn
	turns   int
	missing bool // somebody else runs the loop
}

func (l *chatLoop) Lead(came func() bool) bool {
	if l.missing || l.waits != 1 {
		return false
	}
	for l.led++; !came(); {
		l.answer()
	}
	return true
}

func (l *chatLoop) Waits(n int)     { l.waits += n }
func (l *chatLoop) Turn(alone bool) { l.last, l.turns = alone, l.turns+1 }

// chat makes n messages of a stream and as many answers, each in a reply of its own.
func chat(t *testing.T, l *chatLoop, s *clientStream, n int) {
	t.Helper()
	for range n {
		memory := getBuffer()
		*memory = append((*memory)[:0], 'q')
		if _, err := s.put(memory, nil); err != nil {
			t.Fatal(err)
		}
		s.pipe.build()
		m, err := s.receive()
		if err != nil || string(m.data) != "a" {
			t.Fatalf("%q, %v", m.data, err)
		}
	}
}

// answers returns a reply with a message for each of some streams.
func answers(p *pipe, ids ...uint64) {
	y := frame.Reply{Seq: p.next}
	for _, id := range ids {
		sec := frame.Section{Stream: id, Frames: frame.AppendFrame(nil, frame.Message, []byte("\x01a"))}
		y.Sections = sec.Append(y.Sections)
	}
	p.calls.Add(1)
	(&exchange{pipe: p, memory: getBuffer()}).onReply(y.Append(nil), nil)
}

// TestChats: an application that waits for a message runs the loop until it comes. After some
// messages, one for each that it receives, it is told from others, which is over when it sends two,
// or two streams have answers at once, and after two that it sends late.
func TestChats(t *testing.T) { synctest.Test(t, testChats) }

func testChats(t *testing.T) {
	l := new(chatLoop)
	p := newPipe(&link{}, l)
	p.calls.Store(maxCalls) // it does not send
	s, other := talker(p, 1), talker(p, 1)
	for _, s := range []*clientStream{s, other} {
		s.desc, s.came, s.watch = &grpc.StreamDesc{ClientStreams: true}, s.hasCome, watch{}
	}
	p.build()
	l.answer = func() { answers(p, s.id) }
	s.sent = 0
	chat(t, l, s, fewTurns)
	if l.led != fewTurns || l.waits != 0 || l.last {
		t.Fatalf("%d led, %d wait, told from others %v", l.led, l.waits, l.last)
	}
	if chat(t, l, s, 2); !l.last {
		t.Error("not told from others")
	}
	s.sent++ // one that is not waited for
	if chat(t, l, s, 1); l.last {
		t.Error("two messages for one")
	}
	chat(t, l, s, 2*fewTurns)
	l.answer = func() { answers(p, s.id, other.id) }
	if chat(t, l, s, 1); l.last {
		t.Error("another stream has an answer, too")
	}
	l.answer = func() { answers(p, s.id) }
	if chat(t, l, s, 2*fewTurns); !l.last {
		t.Error("not told from others any more")
	}
	for range 2 {
		<-time.After(soonSent + 1)
		chat(t, l, s, 1)
	}
	if l.last {
		t.Error("two messages that were sent late")
	}
	if l.turns != 5*fewTurns+6 {
		t.Errorf("told of %d turns", l.turns)
	}
}

var _ pipeLoop = (*erpc.Loop)(nil)
