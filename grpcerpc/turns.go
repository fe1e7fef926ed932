package grpcerpc

import "sync"

// turns is the line of the streams of a connection that have something to say. Any goroutine puts
// them in; the loop takes them out.
type turns[S interface{ place() *inLine }] struct {
	mu     sync.Mutex
	line   fifo[S]
	posted bool // the loop is about to look at the line
}

// inLine is a stream's part in turns; it is under their lock.
type inLine struct{ queued bool }

func (i *inLine) place() *inLine { return i }

// add puts a stream behind the others. It reports whether the loop has to be told.
func (t *turns[S]) add(s S) (post bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue(s)
	post = !t.posted
	t.posted = true
	return post
}

// again is add from the loop, which is about to look.
func (t *turns[S]) again(s S) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue(s)
}

func (t *turns[S]) queue(s S) {
	if p := s.place(); !p.queued {
		p.queued = true
		t.line.push(s)
	}
}

// expect says whether the loop is about to look anyway, so that nobody has to tell it.
func (t *turns[S]) expect(looks bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.posted = looks
}

// next returns the stream whose turn it is, and how much it may say of the room that is left.
func (t *turns[S]) next(room int) (s S, _ int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line.len() == 0 {
		return s, 0, false
	}
	s = t.line.pop()
	s.place().queued = false
	if t.line.len() > 0 {
		room = min(room, turn)
	}
	return s, room, true
}

// drop empties the line and returns what was in it.
func (t *turns[S]) drop() []S {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.line.list[t.line.at:]
	t.line = fifo[S]{}
	return list
}
