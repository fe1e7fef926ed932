package memcached

import (
	"runtime"
	"testing"
	"time"
)

const forever = time.Hour

// TestAccount: no more is handed out than there is, buffers come back to those of any size, and who
// came first is served first among those who want about as much.
func TestAccount(t *testing.T) {
	a := account{patience: forever, limit: 2*sizeOf(0) + sizeOf(5)}
	for _, n := range []int{1, sizeOf(0), sizeOf(0) + 1, 1 << 20, sizeOf(5)} {
		b := a.take(n, forever, nil)
		if len(b) < n || len(b) != sizeOf(classOf(n)) {
			t.Errorf("%d bytes for %d", len(b), n)
		}
		a.give(b)
	}
	large, small, other := a.take(sizeOf(5), 0, nil), a.take(1, 0, nil), a.take(1, 0, nil)
	if large == nil || small == nil || other == nil {
		t.Fatal("there was room")
	}
	if a.try(1, nil) != nil || a.take(1, 0, nil) != nil {
		t.Error("more than there is")
	}
	tiny := account{patience: forever, limit: sizeOf(0)}
	if tiny.take(sizeOf(0)+1, forever, nil) != nil {
		t.Error("more than there ever is")
	}
	got := make(chan int)
	wait := func(n int) {
		go func() { got <- len(a.take(n, forever, nil)) }()
		for a.waiters() == 0 || a.used() > a.limit {
			runtime.Gosched()
		}
	}
	wait(sizeOf(5))
	a.give(small)
	if a.try(sizeOf(2), nil) != nil || a.try(1, nil) == nil {
		t.Error("one who came later went first, or a small one waits for a large one")
	}
	a.give(large)
	if n := <-got; n != sizeOf(5) {
		t.Errorf("%d bytes", n)
	}
	if a.used() != a.limit {
		t.Errorf("%d of %d bytes are used", a.used(), a.limit)
	}
	wait(1)
	a.close()
	if n := <-got; n != 0 || a.take(1, forever, nil) != nil || a.try(1, nil) != nil {
		t.Error("it was closed")
	}
}

// TestReserve: large buffers leave some memory to small ones, and small ones that come all the time
// do not hold up a large one.
func TestReserve(t *testing.T) {
	a := account{patience: forever, limit: 4 * sizeOf(classes-1)}
	var all [][]byte
	for b := a.try(1<<20, nil); b != nil; b = a.try(1<<20, nil) {
		all = append(all, b)
	}
	got := make(chan int)
	go func() { got <- len(a.take(1<<20, forever, nil)) }()
	for a.waiters() == 0 {
		runtime.Gosched()
	}
	n := 0
	for a.try(1, nil) != nil {
		n++
	}
	if len(all) != 3 || n != a.limit/4/sizeOf(0) {
		t.Errorf("%d large ones, %d small ones", len(all), n)
	}
	a.give(all[0])
	if n := <-got; n != sizeOf(classes-1) {
		t.Errorf("%d bytes", n)
	}
	b := account{patience: forever, limit: a.limit}
	all = nil
	for s := b.try(1, nil); s != nil; s = b.try(1, nil) {
		all = append(all, s)
	}
	go func() { got <- len(b.take(1<<20, forever, nil)) }()
	for b.waiters() == 0 {
		runtime.Gosched()
	}
	for _, s := range all[:len(all)/2] {
		if b.give(s); b.waiters() > 0 && b.try(1, nil) != nil {
			t.Fatal("a small one went before")
		}
	}
	<-got
}

func (a *account) waiters() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting[small]) + len(a.waiting[large])
}
