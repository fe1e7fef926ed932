package refused

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/gopt"
)

var (
	data [100]uint32
	news chan uint32
)

type limits [4]uint32

func (l *limits) next() uint32 { return l[0] }

type question struct{ key, answer uint32 }

//gopt:batch
func receives(k uint32) uint32 {
	gopt.Expensive(&data[k])
	return data[k] + uint32(<-news) // want: a receive
}

//gopt:batch shared=n,l
func pointers(k, n uint32, l limits) uint32 {
	gopt.Expensive(&data[k])
	p := &n       // want: a pointer to n
	s := l[:]     // want: a pointer to l
	k += l.next() // want: a pointer to l
	return *p + s[0] + k
}

//gopt:batch values=q
func moves(q *question) {
	gopt.Expensive(&data[q.key])
	q = &question{} // want: a write to q
	q.answer = 3
}

//gopt:batch
func localTypes(k uint32) uint32 {
	type pair struct{ a, b uint32 }
	p := pair{k, 2} // want: a value of the type pair
	gopt.Expensive(&data[k])
	return p.a
}

//gopt:batch
func otherTypes(k uint32) uint32 {
	order := binary.LittleEndian // want: a value of the type binary.littleEndian
	gopt.Expensive(&data[k])
	return order.Uint32([]byte{1, 2, 3, 4})
}

type some[K any] struct{ first K }

//gopt:batch
func (s *some[_]) nameless(k uint32) uint32 {
	x := s.first // want: a value of the type _
	gopt.Expensive(&data[k])
	_ = x
	return data[k]
}

//gopt:batch with=find:findAll // want: with=find
func withNothing(k uint32) uint32 {
	gopt.Expensive(&data[k])
	return data[k]
}

//gopt:batch name=all
func one(k uint32) {
	gopt.Expensive(&data[k])
}

//gopt:batch name=all
func two(k uint32) { // want: all is asked for already
	gopt.Expensive(&data[k])
}

//gopt:batch name=init
func three(k uint32) { // want: name=init
	gopt.Expensive(&data[k])
}
