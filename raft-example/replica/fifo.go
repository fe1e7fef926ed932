package replica

// fifo is a queue in one slice.
type fifo[T any] struct {
	list []T
	head int
}

func (q *fifo[T]) len() int  { return len(q.list) - q.head }
func (q *fifo[T]) push(v T)  { q.list = append(q.list, v) }
func (q *fifo[T]) front() *T { return &q.list[q.head] }

func (q *fifo[T]) pop() T {
	var zero T
	v := q.list[q.head]
	q.list[q.head] = zero
	q.head++
	switch {
	case q.head == len(q.list):
		q.list, q.head = q.list[:0], 0
	case q.head >= 1024 && q.head*2 >= len(q.list):
		q.list, q.head = append(q.list[:0], q.list[q.head:]...), 0
	}
	return v
}
