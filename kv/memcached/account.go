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

// Buffers of up to 64 KiB are small. A quarter of an account is for them alone.
const (
	small = iota
	large
	kinds
	firstLarge = 2 // class
)

func kindOf(class int) int {
	if class < firstLarge {
		return small
	}
	return large
}

// patience is how long who waits for memory bears with a holder whose client does nothing.
const patience = time.Second

// account is memory that the connections of a server share: so many bytes at most, whether they
// are in use or wait in a list for the next one. Who finds too little waits behind those that came
// before for a buffer of the same kind, small or large. Large ones leave a reserve to small ones,
// and while somebody waits for a large one the small ones have no more than the reserve.
type account struct {
	mu       sync.Mutex
	limit    int
	patience time.Duration
	held     int        // bytes in use and in the lists
	uses     [kinds]int // bytes in use
	free     [classes][][]byte
	holders  map[*byte]*holder // of buffers in use, by their first bytes
	waiting  [kinds][]*waiter
	ended    bool
}

// waiter is a connection that waits for a buffer. The channel gets it, or is closed.
type waiter struct {
	class int
	got   chan []byte
	h     *holder
}

// classOf returns the class of buffers with n bytes, at most those of the largest.
func classOf(n int) int {
	return bits.Len(uint((max(n-slack, 1) - 1) / firstClass))
}

func sizeOf(class int) int { return firstClass<<class + slack }

// reserve returns how many bytes are for small buffers. The rest has room for one of the largest.
func (a *account) reserve() int {
	return max(0, min(a.limit/4, a.limit-sizeOf(classes-1)))
}

// try returns a buffer of n bytes or more, or nil if there is no memory, or others wait for it.
func (a *account) try(n int, h *holder) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	class := classOf(n)
	if len(a.waiting[kindOf(class)]) > 0 || a.ended {
		return nil
	}
	return a.find(class, h)
}

// take waits for a buffer of n bytes or more. It returns nil after the longest time to wait, and
// when the account has ended. Who takes holds no other buffer of the account.
func (a *account) take(n int, longest time.Duration, h *holder) []byte {
	if b := a.try(n, h); b != nil {
		return b
	}
	w := &waiter{classOf(n), make(chan []byte, 1), h}
	queue := &a.waiting[kindOf(w.class)]
	a.mu.Lock()
	if a.ended || sizeOf(w.class) > a.limit {
		a.mu.Unlock()
		return nil
	}
	h.wait()
	defer h.move()
	*queue = append(*queue, w)
	a.serve()
	timer, tick := time.NewTimer(longest), time.NewTicker(a.patience)
	a.mu.Unlock()
	defer timer.Stop()
	defer tick.Stop()
	for late := false; !late; {
		select {
		case b := <-w.got:
			return b
		case <-tick.C:
			a.endIdle()
		case <-timer.C:
			late = true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(*queue, w); i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
		a.serve()
		return nil
	}
	return <-w.got // it came just now
}

// endIdle ends the holder whose client has done nothing for longest, if that is long enough.
func (a *account) endIdle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var idle *holder
	for _, h := range a.holders {
		if h != nil && !h.ended.Load() && (idle == nil || h.moved.Load() < idle.moved.Load()) {
			idle = h
		}
	}
	if idle != nil && time.Now().UnixNano()-idle.moved.Load() >= int64(a.patience) {
		idle.end()
	}
}

// give gives a buffer back; nil is none.
func (a *account) give(b []byte) {
	if b == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b = b[:cap(b)]
	class := classOf(len(b))
	delete(a.holders, &b[0])
	a.uses[kindOf(class)] -= len(b)
	a.free[class] = append(a.free[class], b)
	a.serve()
}

// serve hands buffers to those that wait, as far as there is memory.
func (a *account) serve() {
	for _, kind := range []int{large, small} {
		for queue := &a.waiting[kind]; len(*queue) > 0; {
			w := (*queue)[0]
			b := a.find(w.class, w.h)
			if b == nil {
				break
			}
			w.got <- b
			*queue = slices.Delete(*queue, 0, 1)
		}
	}
}

// find returns a buffer of the class for a holder, or nil if its kind may have no more.
func (a *account) find(class int, h *holder) []byte {
	kind, most := kindOf(class), a.limit
	switch {
	case kind == large:
		most -= a.reserve()
	case len(a.waiting[large]) > 0:
		most = max(a.reserve(), sizeOf(class))
	}
	if a.uses[kind]+sizeOf(class) > most {
		return nil
	}
	b := a.make(class)
	if b != nil {
		a.uses[kind] += len(b)
		if a.holders == nil {
			a.holders = map[*byte]*holder{}
		}
		a.holders[&b[0]] = h
		h.move()
	}
	return b
}

// make returns a buffer of the class: from its list, or a new one, for which those of other lists
// go.
func (a *account) make(class int) []byte {
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
	for kind := range a.waiting {
		for _, w := range a.waiting[kind] {
			close(w.got)
		}
		a.waiting[kind] = nil
	}
}

// used returns how many bytes connections have.
func (a *account) used() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.uses[small] + a.uses[large]
}
