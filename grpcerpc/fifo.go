package grpcerpc

import "sync"

// fifo is a queue. It uses its memory again, and its size follows what is in it. Queues that fill
// and empty again and again borrow the memory of many places from a pool.
type fifo[T any] struct {
	list []T
	at   int        // of the first one
	pool *sync.Pool // of *[]T; or nil
	box  *[]T       // for list, when that goes back to pool; or nil
	many bool       // the queue needed more than maxSpare places before it was empty
}

const (
	maxSpare  = 64      // places that an empty queue keeps
	maxPooled = 4 << 10 // places of memory in a pool
)

func (q *fifo[T]) len() int { return len(q.list) - q.at }

// first returns the first one, to be changed in its place; there must be one.
func (q *fifo[T]) first() *T { return &q.list[q.at] }

func (q *fifo[T]) push(v T) {
	if len(q.list) == cap(q.list) {
		q.makeRoom()
	}
	q.list = append(q.list, v)
}

// makeRoom makes it likely that list has room for one more.
func (q *fifo[T]) makeRoom() {
	if q.at > len(q.list)/2 {
		n := copy(q.list, q.list[q.at:])
		clear(q.list[n:])
		q.list, q.at = q.list[:n], 0
		return
	}
	if q.pool == nil || q.box != nil || len(q.list) < maxSpare && !q.many {
		return
	}
	if q.box, _ = q.pool.Get().(*[]T); q.box == nil {
		q.box = new([]T)
	} else if cap(*q.box) > len(q.list) {
		q.list, q.at = append((*q.box)[:0], q.list[q.at:]...), 0
	}
}

func (q *fifo[T]) pop() T {
	v := q.list[q.at]
	clear(q.list[q.at : q.at+1])
	if q.at++; q.at == len(q.list) {
		q.at, q.list = 0, q.list[:0]
		q.many = cap(q.list) > maxSpare
		if q.many {
			q.giveBack()
		}
	}
	return v
}

// giveBack lets the memory of an empty queue go.
func (q *fifo[T]) giveBack() {
	if q.box != nil && cap(q.list) <= maxPooled {
		*q.box = q.list
		q.pool.Put(q.box)
	}
	q.list, q.box = nil, nil
}
