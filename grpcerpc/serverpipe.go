package grpcerpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// maxRefused is how many bytes the refusals of streams have that wait for a reply. Exchanges of
// grpcerpc's own clients do not cause as many: 8 of them, of 64 KiB and a stream, come at once.
const maxRefused = 4 << 20

// serverPipe is the server's end of a pipe: the exchanges of a connection. They bring frames of
// streams, and stay unanswered until a stream has something to say.
type serverPipe struct {
	conn *serverConn
	rpc  *erpc.Rpc       // its loop has the exchanges
	run  func(*erpc.Rpc) // flush, bound once

	ready turns[*serverStream]

	// In the loop only.
	next    uint64                    // number of the next exchange
	held    map[uint64]erpc.ReqHandle // those ahead of it
	parked  fifo[erpc.ReqHandle]      // taken, and unanswered
	most    int                       // parked when there is nothing to say
	replies uint64                    // number of the next reply
	high    uint64                    // the highest number of a stream
	refused []byte                    // sections for streams that were refused: maxRefused bytes
	buf     []byte                    // for the next reply
	gone    *frame.Status             // why there are no more replies
}

func (p *serverPipe) init(c *serverConn, r *erpc.Rpc) {
	p.conn, p.rpc = c, r
	p.ready.expect(true)
	p.run = func(*erpc.Rpc) { p.flush() }
}

// say has the loop send what a stream has to say. The stream's lock is not held.
func (p *serverPipe) say(st *serverStream) {
	if p.ready.add(st) {
		_ = p.rpc.Post(p.run) // in vain only if the loop has ended
	}
}

// onExchange takes frames of streams, in the loop, and answers when there is something to say.
func (s *Server) onExchange(h erpc.ReqHandle) {
	x, err := frame.ParseExchange(h.Data())
	if err != nil {
		sayGone(h, &frame.Status{Code: uint64(codes.Internal), Text: "grpcerpc: malformed exchange"},
			false)
		return
	}
	c := s.conn(x.Token, h)
	if c == nil || c.pipe.rpc != h.Rpc() {
		sayGone(h, &frame.Status{Code: uint64(codes.Unavailable),
			Text: "grpcerpc: the server does not know the connection"}, true)
		return
	}
	c.pipe.take(h, &x)
	c.pipe.flush()
	h.Rpc().GiveWay()
}

// sayGone answers an exchange whose connection is not there. Untaken says that the streams which it
// opens have certainly not begun.
func sayGone(h erpc.ReqHandle, why *frame.Status, untaken bool) {
	y := frame.Reply{Gone: true, Status: *why, Untaken: untaken}
	_ = h.RespondBytes(y.Append(nil)) // in vain if the session has ended
}

// take takes an exchange, or keeps it until those before it have come.
func (p *serverPipe) take(h erpc.ReqHandle, x *frame.Exchange) {
	_, twice := p.held[x.Seq]
	switch {
	case p.gone != nil:
		sayGone(h, p.gone, true)
	case x.Seq == p.next:
		p.accept(h, x)
		for h, ok := p.held[p.next]; ok && p.gone == nil; h, ok = p.held[p.next] {
			delete(p.held, p.next)
			x, _ := frame.ParseExchange(h.Data()) // it was parsed before
			p.accept(h, &x)
		}
	case x.Seq < p.next || x.Seq-p.next > 2*maxCalls || twice:
		p.parked.push(h)
		p.fail(errFrames)
	default:
		if p.held == nil {
			p.held = make(map[uint64]erpc.ReqHandle)
		}
		p.held[x.Seq] = h
	}
}

// accept takes what an exchange brings.
func (p *serverPipe) accept(h erpc.ReqHandle, x *frame.Exchange) {
	p.next++
	p.parked.push(h)
	p.most = parks(h.Session().Params().Slots)
	if p.parked.len() > 2*maxCalls {
		p.fail(errFrames)
		return
	}
	for rest := x.Sections; len(rest) > 0; {
		sec, next, err := frame.NextSection(rest)
		if err != nil || len(p.refused) > maxRefused {
			p.fail(errFrames)
			return
		}
		rest = next
		p.hear(&sec)
	}
}

// parks returns how many exchanges are left unanswered of a client whose sessions have so many
// slots: fewer than its erpc.Client keeps for exchanges, if that keeps two.
func parks(slots int) int { return min(max(slots/4-1, 1), maxParked) }

// hear takes what a client says in a stream.
func (p *serverPipe) hear(sec *frame.Section) {
	st, err := p.conn.stream(sec)
	switch {
	case err != nil:
		f := toFrame(status.Convert(err))
		no := frame.Section{Stream: sec.Stream, End: true, NotRun: true,
			Frames: frame.AppendFrame(nil, frame.Trailers, frame.AppendTrailers(nil, &f, nil))}
		p.refused = no.Append(p.refused)
	case st == nil: // it has ended
	case sec.End:
		st.abort()
	case st.hear(sec):
		p.ready.again(st)
	}
}

// flush answers exchanges as long as there is reason to, in the loop.
func (p *serverPipe) flush() {
	p.ready.expect(false)
	for p.gone == nil && p.parked.len() > 0 && p.reply() {
	}
	if p.parked.len() == 0 {
		p.ready.expect(true) // the next exchange has the loop look
	}
}

// reply answers an exchange. It reports false if there is no reason to.
func (p *serverPipe) reply() bool {
	y := frame.Reply{Seq: p.replies}
	b := y.Append(p.buf[:0])
	empty := len(b)
	b = append(b, p.refused...)
	if p.refused = p.refused[:0]; cap(p.refused) > maxKept {
		p.refused = nil
	}
	for len(b)-empty < maxBatch {
		st, room, ok := p.ready.next(maxBatch - (len(b) - empty))
		if !ok {
			break
		}
		var more bool
		if b, more = st.speak(b, room); more {
			p.ready.again(st)
		}
	}
	if p.buf = b; cap(b) > maxKept {
		p.buf = nil
	}
	if len(b) == empty && p.parked.len() <= p.most {
		return false
	}
	p.replies++
	h := p.parked.pop()
	_ = h.RespondBytes(b) // in vain if the session has ended
	return true
}

// fail ends the connection for what its client did.
func (p *serverPipe) fail(err error) {
	p.shut(status.Convert(err))
	go p.conn.close()
}

// shut answers all exchanges, in the loop: the connection is gone.
func (p *serverPipe) shut(why *status.Status) {
	if p.gone == nil {
		f := toFrame(why)
		p.gone = &f
	}
	for p.parked.len() > 0 {
		sayGone(p.parked.pop(), p.gone, false)
	}
	for _, h := range p.held {
		sayGone(h, p.gone, true)
	}
	p.held, p.refused = nil, nil
}

// speak appends what a stream has to say, about room bytes, in the loop. More says that there is
// more.
func (st *serverStream) speak(b []byte, room int) (_ []byte, more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over || !st.out.ready() && !st.in.due() {
		return b, false
	}
	sec := frame.Section{Stream: st.id, Limit: st.in.tell(), End: st.notRun, NotRun: st.notRun}
	b = frame.BeginFrames(sec.AppendHead(b))
	from, before := len(b), st.out.queued
	b, last := st.out.fill(b, room)
	frame.EndFrames(b, from)
	if last == frame.Trailers {
		st.conclude()
	}
	if before > maxQueued && st.out.queued <= maxQueued {
		st.changed.Broadcast()
	}
	return b, st.out.ready()
}

// hear takes what the client says, in the loop. It reports whether the stream has something to say.
func (st *serverStream) hear(sec *frame.Section) (more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.accept(sec); err != nil {
		st.fail(err)
	}
	if st.in.ready.len() > 0 || st.halfClosed || st.err != nil { // not for a part of a message
		st.changed.Broadcast()
	}
	return st.out.ready() || st.in.due()
}
