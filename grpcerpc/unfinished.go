package grpcerpc

import "sync"

// unfinished is the streams of a ClientConn whose end the application has not been told yet, also
// those that their server has ended: Close finishes them.
type unfinished struct {
	mu    sync.Mutex
	first *retryStream
}

// add puts a stream in, unless it was removed before.
func (u *unfinished) add(r *retryStream) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.removed {
		return
	}
	if r.next = u.first; r.next != nil {
		r.next.prev = r
	}
	u.first = r
}

// remove takes a stream out, or has add not put it in.
func (u *unfinished) remove(r *retryStream) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r.removed = true
	if r.prev != nil {
		r.prev.next = r.next
	} else if u.first == r {
		u.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// list returns them all.
func (u *unfinished) list() (all []*retryStream) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for r := u.first; r != nil; r = r.next {
		all = append(all, r)
	}
	return all
}
