package kv

import "time"

// MaxSessions bounds the sessions of a store.
const MaxSessions = 16384

// SessionIdle is how long a session that has written is kept from its last write on,
// whatever sessions are opened: in the time of the log, see Clock.
const SessionIdle = 10 * time.Minute

// CrowdedIdle is that of a full table from version 1 on.
const CrowdedIdle = time.Minute

// session is the state of one client.
type session struct {
	id         uint64
	seq        uint64 // of the last write
	last       uint64 // when that was, in ms of the log's time
	answer     Answer // to it
	prev, next *session
}

// sessions is the table: those that have written by the age of their last write, and those
// that have not by their own age.
type sessions struct {
	byID    map[uint64]*session
	fresh   session // head of the ring of those without a write: fresh.next is the oldest
	written session // likewise, of the others
	now     uint64  // the log's time in ms
	max     int
}

func newSessions() *sessions {
	t := &sessions{byID: map[uint64]*session{}, max: MaxSessions}
	t.fresh.prev, t.fresh.next = &t.fresh, &t.fresh
	t.written.prev, t.written.next = &t.written, &t.written
	return t
}

// open adds a session. A full table loses the oldest one without a write, else the one whose last
// write is oldest, if that is idle ago; ok is false if there is neither.
func (t *sessions) open(id uint64, idle time.Duration) (ok bool) {
	if len(t.byID) >= t.max {
		old := t.fresh.next
		if old == &t.fresh {
			old = t.written.next
			if t.now-old.last < uint64(idle/time.Millisecond) {
				return false
			}
		}
		t.end(old.id)
	}
	t.add(&session{id: id})
	return true
}

// end takes a session away, if it is there.
func (t *sessions) end(id uint64) {
	if n := t.byID[id]; n != nil {
		n.unlink()
		delete(t.byID, id)
	}
}

// add puts a session behind the others of its kind.
func (t *sessions) add(n *session) {
	t.byID[n.id] = n
	if n.seq == 0 {
		t.fresh.append(n)
	} else {
		t.written.append(n)
	}
}

// wrote notes a write, whose answer is there.
func (t *sessions) wrote(n *session, seq uint64) {
	n.unlink()
	n.seq, n.last = seq, t.now
	t.written.append(n)
}

// each calls f with every session, in the order that a snapshot keeps.
func (t *sessions) each(f func(*session)) {
	for _, ring := range []*session{&t.fresh, &t.written} {
		for n := ring.next; n != ring; n = n.next {
			f(n)
		}
	}
}

// maxStep bounds one Clock, so that a leader that was stopped for long ages nobody.
const maxStep = uint64(time.Minute / time.Millisecond)

func (t *sessions) tick(ms uint64) { t.now += min(ms, maxStep) }

func (n *session) unlink() { n.prev.next, n.next.prev = n.next, n.prev }

// append makes n the newest of the ring whose head is h.
func (h *session) append(n *session) {
	n.prev, n.next = h.prev, h
	h.prev.next, h.prev = n, n
}
