package memcached

import (
	"math/bits"
	"slices"
	"sync"
	"time"
)

// Buffers of an account have sizes of firstClass times a power of two, and room for a line beside
// a value of that size.
const (
	firstClass = 32 << 10
	classes    = 6 // the last one is for a value of 1 MiB
	slack      = 1 << 10
)

// account is memory that the connections of a server share: so many bytes at most, whether they
// are in use or wait in a list for the next one. Who finds too little waits behind those that came
// before.
type account struct {
	mu      sync.Mutex
	limit   int
	held    int // bytes in use and in the lists
	free    [classes][][]byte
	waiting []*waiter
	ended   bool
}

// waiter is a connection that waits for a buffer. The channel gets it, or is closed.
type waiter struct {
	class int
	got   chan []byte
}

// classOf returns the class of buffers with n bytes, at most those of the largest.
func classOf(n int) int {
	return bits.Len(uint((max(n-slack, 1) - 1) / firstClass))
}

func sizeOf(class int) int { return firstClass<<class + slack }

// try returns a buffer of n bytes or more, or nil if there is no memory, or others wait for it.
func (a *account) try(n int) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) > 0 || a.ended {
		return nil
	}
	return a.find(classOf(n))
}

// take waits for a buffer of n bytes or more. It returns nil after the longest time to wait, and
// when the account has ended. Who takes holds no other buffer of the account.
func (a *account) take(n int, longest time.Duration) []byte {
	if b := a.try(n); b != nil {
		return b
	}
	w := &waiter{classOf(n), make(chan []byte, 1)}
	a.mu.Lock()
	if a.ended || sizeOf(w.class) > a.limit {
		a.mu.Unlock()
		return nil
	}
	a.waiting = append(a.waiting, w)
	a.serve()
	a.mu.Unlock()
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case b := <-w.got:
		return b
	case <-timer.C:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiting, w); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.serve()
		return nil
	}
	return <-w.got // it came just now
}

// give gives a buffer back; nil is none.
func (a *account) give(b []byte) {
	if b == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	class := classOf(cap(b))
	a.free[class] = append(a.free[class], b[:cap(b)])
	a.serve()
}

// serve hands buffers to those that wait, as far as there is memory.
func (a *account) serve() {
	for len(a.waiting) > 0 {
		b := a.find(a.waiting[0].class)
		if b == nil {
			return
		}
		a.waiting[0].got <- b
		a.waiting = slices.Delete(a.waiting, 0, 1)
	}
}

// find returns a buffer of the class: from its list, or a new one, for which those of other lists
// go.
func (a *account) find(class int) []byte {
	if list := a.free[class]; len(list) > 0 {
		b := list[len(list)-1]
		a.free[class] = list[:len(list)-1]
		return b
	}
	size := sizeOf(class)
	for i := 0; i < classes && a.held+size > a.limit; i++ {
		for n := len(a.free[i]); n > 0 && a.held+size > a.limit; n-- {
			a.free[i][n-1] = nil
			a.free[i] = a.free[i][:n-1]
			a.held -= sizeOf(i)
		}
	}
	if a.held+size > a.limit {
		return nil
	}
	a.held += size
	return make([]byte, size)
}

// close ends the account: nobody gets a buffer any more.
func (a *account) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, w := range a.waiting {
		close(w.got)
	}
	a.waiting = nil
}

// used returns how many bytes connections have.
func (a *account) used() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.held
	for i, list := range a.free {
		n -= len(list) * sizeOf(i)
	}
	return n
}
