package session

import "github.com/userspace-rpc/erpc/internal/monotime"

// opQueue is a bounded FIFO of waiting requests that grows to what was needed.
type opQueue struct {
	buf  []queuedOp // length a power of two
	head int
	n    int
	max  int
}

// queuedOp is a request that waits, with its deadline.
type queuedOp struct {
	Op
	deadline monotime.Time
}

func (q *opQueue) push(op Op, deadline monotime.Time) error {
	if q.n >= q.max {
		return ErrExhausted
	}
	if q.n == len(q.buf) {
		bigger := make([]queuedOp, max(16, 2*len(q.buf)))
		for i := range q.n {
			bigger[i] = *q.at(i)
		}
		q.buf, q.head = bigger, 0
	}
	*q.at(q.n) = queuedOp{op, deadline}
	q.n++
	return nil
}

func (q *opQueue) at(i int) *queuedOp { return &q.buf[(q.head+i)&(len(q.buf)-1)] }

func (q *opQueue) pop() (op Op, deadline monotime.Time) {
	op, deadline = q.at(0).Op, q.at(0).deadline
	*q.at(0) = queuedOp{}
	q.head = (q.head + 1) & (len(q.buf) - 1)
	q.n--
	return op, deadline
}

// remove takes the request named ref out of the queue.
func (q *opQueue) remove(ref uint32) bool {
	for i := range q.n {
		if q.at(i).Ref != ref {
			continue
		}
		for j := i; j < q.n-1; j++ {
			*q.at(j) = *q.at(j + 1)
		}
		q.n--
		*q.at(q.n) = queuedOp{}
		return true
	}
	return false
}
