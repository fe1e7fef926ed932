package main

import "github.com/userspace-rpc/erpc/gopt"

// query is an element of a batch, question and answer.
type query struct {
	key    uint32
	found  bool
	answer uint32
}

// answer writes to its own element.
//
//gopt:batch B=2 values=q shared=t,limit
func answer(t *table, q *query, limit uint32) {
	q.found = false
	at := place(q.key)
	for range limit {
		e := &t.entries[at&255]
		gopt.Expensive(e)
		if e.key&1 == q.key&1 {
			q.answer, q.found = e.key, true
			return
		}
		at++
	}
}

// tree has values of any kind.
type tree[K ~uint32 | ~uint64, V any] struct {
	keys   []K
	values []V
}

// find searches by halves.
//
//gopt:batch B=64
func (t *tree[K, V]) find(key K) (value V, ok bool) {
	low, high := 0, len(t.keys)
	for low < high {
		middle := int(uint(low+high) / 2)
		gopt.Expensive(&t.keys[middle])
		if t.keys[middle] < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(t.keys) || t.keys[low] != key {
		return
	}
	gopt.Expensive(&t.values[low])
	value, ok = t.values[low], true
	return value, ok
}

// pick has parameters of three kinds.
//
//gopt:batch B=4 shared=list
func pick[T any](list []T, a, _ int, b int) (one, two T, sum int) {
	gopt.Expensive(&list[a])
	gopt.Expensive(&list[b])
	one = list[a]
	a += b
	sum = a
	gopt.Expensive(&list[a%len(list)])
	two = list[a%len(list)]
	return one, two, sum
}
