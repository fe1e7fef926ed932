package grpcerpc

// fifo is a queue. It uses its memory again, and its size follows what is in it.
type fifo[T any] struct {
	list []T
	at   int // of the first one
}

// maxSpare is how many places an empty queue keeps.
const maxSpare = 64

func (q *fifo[T]) len() int { return len(q.list) - q.at }

// first returns the first one, to be changed in its place; there must be one.
func (q *fifo[T]) first() *T { return &q.list[q.at] }

func (q *fifo[T]) push(v T) {
	if len(q.list) == cap(q.list) && q.at > len(q.list)/2 {
		n := copy(q.list, q.list[q.at:])
		clear(q.list[n:])
		q.list, q.at = q.list[:n], 0
	}
	q.list = append(q.list, v)
}

func (q *fifo[T]) pop() T {
	v := q.list[q.at]
	clear(q.list[q.at : q.at+1])
	if q.at++; q.at == len(q.list) {
		if q.at, q.list = 0, q.list[:0]; cap(q.list) > maxSpare {
			q.list = nil
		}
	}
	return v
}
