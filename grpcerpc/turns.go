package grpcerpc

import (
	"sync"
	"sync/atomic"
)

// turns is the line of the streams of a connection that have something to say. Any goroutine puts
// them in. The loop takes them out, and takes the lock once for all that are there.
type turns[S interface{ place() *inLine }] struct {
	mu     sync.Mutex
	line   fifo[S] // behind mine
	posted bool    // the loop is about to look at the line

	mine fifo[S] // in the loop only
}

// inLine is a stream's part in turns.
type inLine struct{ queued atomic.Bool }

func (i *inLine) place() *inLine { return i }

// add puts a stream behind the others. It reports whether the loop has to be told.
func (t *turns[S]) add(s S) (post bool) {
	if s.place().queued.Swap(true) {
		return false // the goroutine that put it in tells the loop
	}
	t.mu.Lock()
	t.line.push(s)
	post = !t.posted
	t.posted = true
	t.mu.Unlock()
	return post
}

// again is add from the loop, which is about to look.
func (t *turns[S]) again(s S) {
	if !s.place().queued.Swap(true) {
		t.mu.Lock()
		t.line.push(s)
		t.mu.Unlock()
	}
}

// expect says whether the loop is about to look anyway, so that nobody has to tell it.
func (t *turns[S]) expect(looks bool) {
	t.mu.Lock()
	t.posted = looks
	t.mu.Unlock()
}

// fetch has mine begin with a stream, if there is one.
func (t *turns[S]) fetch() bool {
	if t.mine.len() > 0 {
		return true
	}
	t.mu.Lock()
	t.mine, t.line = t.line, t.mine
	t.mu.Unlock()
	return t.mine.len() > 0
}

// next returns the stream whose turn it is, and how much it may say of the room that is left.
func (t *turns[S]) next(room int) (s S, _ int, ok bool) {
	if !t.fetch() {
		return s, 0, false
	}
	s = t.mine.pop()
	s.place().queued.Store(false) // what is said from now on is another turn
	if t.fetch() {
		room = min(room, turn)
	}
	return s, room, true
}

// drop empties the line and returns what was in it.
func (t *turns[S]) drop() (list []S) {
	for t.fetch() {
		list = append(list, t.mine.pop())
	}
	return list
}
