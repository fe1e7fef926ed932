package grpcerpc

import (
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// pipe carries the streams of a link. It sends exchanges, several at a time, each with what all
// streams had to say when the event loop came to it, and keeps one at the server while an
// application waits for it. Exchanges and replies are taken in the order of their numbers.
type pipe struct {
	link *link
	loop pipeLoop
	run  func(*erpc.Rpc) // flush, bound once

	calls   atomic.Int32 // exchanges under way; the loop alone changes it
	waiting atomic.Int32 // streams that wait for the server

	ready turns[*clientStream]

	err atomic.Pointer[error] // why there are no exchanges any more

	// In the loop only.
	streams map[uint64]*clientStream // that have begun, by number
	last    uint64                   // number of the last stream
	seq     uint64                   // number of the next exchange
	next    uint64                   // number of the next reply
	held    map[uint64][]byte        // replies that overtook others
	keep    int32                    // how many exchanges stay at the server while streams wait
	gone    error                    // why there are no more than those under way
	fetch   bool                     // they stay there also if none waits
	later   *time.Timer              // until fetch
	armed   bool                     // later is
}

// pipeLoop is what a pipe needs of the *erpc.Loop of its link.
type pipeLoop interface {
	Post(fn func(*erpc.Rpc)) error
	Do(fn func(*erpc.Rpc)) error
	Lead(came func() bool) bool
	Waits(n int)
	Turn(alone bool)
}

// fetchAfter is how long an application may leave a stream alone before an exchange is sent for
// what the server says: it has sent one of its own by then, or will not soon.
const fetchAfter = time.Millisecond

const (
	// An application talks in turns after so many messages that it has sent and received in turns.
	fewTurns = 4
	// It sends soon after it has received. If not, that takes lateTurn turns away.
	soonSent = 30 * time.Microsecond
	lateTurn = 8
)

func newPipe(l *link, on pipeLoop) *pipe {
	p := &pipe{link: l, loop: on, streams: make(map[uint64]*clientStream), keep: 1}
	p.run = func(*erpc.Rpc) { p.flush() }
	fetch := func(*erpc.Rpc) {
		p.armed, p.fetch = false, true
		p.flush()
	}
	p.later = time.AfterFunc(time.Hour, func() { _ = on.Post(fetch) }) // as in say
	p.later.Stop()
	return p
}

// say has the loop send what a stream has to say. The stream's lock is not held: the way into the
// loop may be full. The error is that of the pipe, when it has failed.
func (p *pipe) say(s *clientStream) error {
	if err := p.failure(); err != nil {
		return err
	}
	if p.ready.add(s) {
		_ = p.loop.Do(p.run) // in vain only if the loop has ended, and the pipe with it
	}
	return p.failure() // if it failed meanwhile, nobody may have seen s
}

func (p *pipe) failure() error {
	if err := p.err.Load(); err != nil {
		return *err
	}
	return nil
}

// flush sends exchanges as long as there is reason to, in the loop.
func (p *pipe) flush() {
	p.ready.expect(false)
	for p.failure() == nil && p.gone == nil && p.calls.Load() < maxCalls {
		x := p.build()
		if x == nil {
			if p.calls.Load() == 0 && len(p.streams) > 0 && !p.armed {
				p.armed = true
				p.later.Reset(fetchAfter)
			}
			return
		}
		p.calls.Add(1)
		err := p.link.client.StartInLoop(frame.TypeExchange, *x.memory, x.onReply)
		if err != nil {
			x.onReply(nil, err)
			return
		}
	}
	p.ready.expect(true) // the next reply has the loop look
}

// exchange is one under way.
type exchange struct {
	pipe   *pipe
	memory *[]byte // of buffers
	// The streams that it opens are those above low, up to high.
	low, high uint64
}

// untaken notes that the server has taken nothing of the exchange, in the loop: the streams that it
// opens have certainly not begun.
func (x *exchange) untaken() {
	for id := x.low + 1; id <= x.high; id++ {
		if s := x.pipe.streams[id]; s != nil {
			s.mu.Lock()
			s.notRun = true
			s.mu.Unlock()
		}
	}
}

// build returns the next exchange, nil if there is no reason for one.
func (p *pipe) build() *exchange {
	memory := getBuffer()
	x := frame.Exchange{Token: p.link.token, Seq: p.seq}
	b := x.Append((*memory)[:0])
	empty, before := len(b), p.last
	for len(b)-empty < maxBatch {
		s, room, ok := p.ready.next(maxBatch - (len(b) - empty))
		if !ok {
			break
		}
		var more bool
		if b, more = s.speak(b, room); more {
			p.ready.again(s)
		}
	}
	*memory = b
	wanted := p.waiting.Load() > 0 || p.fetch && len(p.streams) > 0
	if len(b) == empty && (!wanted || p.calls.Load() >= p.keep) {
		putBuffer(memory)
		return nil
	}
	p.seq++
	return &exchange{p, memory, before, p.last}
}

// onReply takes the answer to an exchange, in the loop.
func (x *exchange) onReply(resp []byte, err error) {
	p := x.pipe
	p.calls.Add(-1)
	var y frame.Reply
	if err == nil {
		putBuffer(x.memory) // else the loop may still read the exchange
		if y, err = frame.ParseReply(resp); err != nil {
			err = errFrames
		}
	}
	if y.Untaken || errors.Is(err, erpc.ErrNotRun) {
		x.untaken()
	}
	switch {
	case errors.Is(err, erpc.ErrDraining):
		p.gone = err // of them all, which end: it may have overtaken replies with the end of streams
	case err != nil:
		p.fail(err)
	case y.Gone:
		p.gone = fromFrame(&y.Status)
	case y.Seq != p.next:
		p.hold(&y)
	default:
		p.accept(&y)
		for next, ok := p.held[p.next]; ok; next, ok = p.held[p.next] {
			delete(p.held, p.next)
			p.accept(&frame.Reply{Sections: next})
		}
	}
	if p.gone != nil && p.calls.Load() == 0 {
		p.fail(p.gone)
	}
	p.flush()
}

// hold keeps a reply that overtook others.
func (p *pipe) hold(y *frame.Reply) {
	if y.Seq < p.next || y.Seq-p.next > 2*maxCalls || len(p.held) > 2*maxCalls {
		p.fail(errFrames)
		return
	}
	if p.held == nil {
		p.held = make(map[uint64][]byte)
	}
	p.held[y.Seq] = append([]byte{}, y.Sections...)
}

// accept takes what a reply brings.
func (p *pipe) accept(y *frame.Reply) {
	p.next++
	p.keep = 1
	if p.fetch = len(y.Sections) >= maxBatch/2; p.fetch { // more follows, and needs exchanges
		p.keep = maxParked
	}
	alone := true
	for rest := y.Sections; len(rest) > 0; {
		var sec frame.Section
		var err error
		if sec, rest, err = frame.NextSection(rest); err != nil {
			p.fail(errFrames)
			return
		}
		s := p.streams[sec.Stream]
		if s == nil {
			continue // it was given up
		}
		over, more, chats := s.hear(&sec)
		alone = alone && chats
		if over {
			delete(p.streams, sec.Stream)
		} else if more {
			p.ready.again(s)
		}
	}
	if len(y.Sections) > 0 {
		p.loop.Turn(alone)
	}
}

// fail ends the pipe and all its streams: one reply that does not come holds up all that follow.
func (p *pipe) fail(err error) {
	if err == nil {
		err = status.Error(codes.Unavailable, "grpcerpc: the server has forgotten the connection")
	}
	if !p.err.CompareAndSwap(nil, &err) {
		return
	}
	p.link.retire() // before streams are tried again
	list := p.ready.drop()
	for _, s := range p.streams {
		s.lose(err)
	}
	for _, s := range list {
		s.lose(err)
	}
	clear(p.streams)
	p.held = nil
}

// lose ends a stream whose pipe has failed.
func (s *clientStream) lose(err error) {
	if _, ok := status.FromError(err); !ok || errors.Is(err, erpc.ErrClosed) {
		err = s.cc.callError(s.ctx, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.notRun = s.notRun || s.id == 0
		s.finishWith(err)
		s.release()
	}
}

// speak appends what a stream has to say, about room bytes, in the loop. More says that there is
// more.
func (s *clientStream) speak(b []byte, room int) (_ []byte, more bool) {
	p := s.pipe
	s.mu.Lock()
	defer s.mu.Unlock()
	sec := frame.Section{Stream: s.id}
	switch {
	case s.over && (s.id == 0 || !s.ending):
		return b, false // the server knows nothing of it, or knows
	case s.over:
		s.ending = false
		delete(p.streams, s.id)
		sec.End = true
		return sec.Append(b), false
	case s.id == 0:
		p.last++
		s.id = p.last
		p.streams[s.id] = s
		sec.Stream, sec.Open = s.id, s.openHead()
	case !s.out.ready() && !s.in.due():
		s.count(s.counted || s.out.blocked())
		return b, false
	}
	sec.Limit = s.in.tell()
	b = frame.BeginFrames(sec.AppendHead(b))
	from, before := len(b), s.out.queued
	b, _ = s.out.fill(b, room)
	frame.EndFrames(b, from)
	if before > maxQueued && s.out.queued <= maxQueued {
		s.wake()
	}
	s.count(s.counted || s.out.blocked())
	return b, s.out.ready()
}

// hear takes what the server says in a stream, in the loop. More says that the stream has something
// to answer. Chats says that its application sends one message for each that it receives.
func (s *clientStream) hear(sec *frame.Section) (over, more, chats bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return true, false, false
	}
	known := s.headerDone
	s.accept(sec)
	if sec.End && !s.over {
		s.finishWith(status.Error(codes.Unavailable, "grpcerpc: the server has forgotten the stream"))
	}
	s.count(!s.over && s.out.blocked())
	if s.in.ready.len() > 0 || s.over || s.headerDone != known { // not for a part of a message
		s.wake()
	}
	s.release()
	return s.over && !s.ending, !s.over && (s.out.ready() || s.in.due()), s.turns > fewTurns
}

// count counts the stream among those that wait for the server, or not. The lock is held.
func (s *clientStream) count(waits bool) {
	if s.counted != waits {
		s.counted = waits
		n := -1
		if waits {
			n = 1
		}
		s.pipe.waiting.Add(int32(n))
		s.pipe.loop.Waits(n)
	}
}

// wake wakes the application. The lock is held.
func (s *clientStream) wake() {
	s.events++
	s.changed.Broadcast()
}
