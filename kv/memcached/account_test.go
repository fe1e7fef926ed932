package memcached

import (
	"runtime"
	"testing"
	"time"
)

const forever = time.Hour

// TestAccount: no more is handed out than there is, buffers come back to those of any size, and who
// came first is served first.
func TestAccount(t *testing.T) {
	a := account{limit: 2*sizeOf(0) + sizeOf(5)}
	for _, n := range []int{1, sizeOf(0), sizeOf(0) + 1, 1 << 20, sizeOf(5)} {
		b := a.take(n, forever)
		if len(b) < n || len(b) != sizeOf(classOf(n)) {
			t.Errorf("%d bytes for %d", len(b), n)
		}
		a.give(b)
	}
	large, small, other := a.take(sizeOf(5), 0), a.take(1, 0), a.take(1, 0)
	if large == nil || small == nil || other == nil {
		t.Fatal("there was room")
	}
	if a.try(1) != nil || a.take(1, 0) != nil {
		t.Error("more than there is")
	}
	if tiny := (&account{limit: sizeOf(0)}); tiny.take(sizeOf(0)+1, forever) != nil {
		t.Error("more than there ever is")
	}
	got := make(chan int)
	wait := func(n int) {
		go func() { got <- len(a.take(n, forever)) }()
		for a.waiters() == 0 || a.used() > a.limit {
			runtime.Gosched()
		}
	}
	wait(sizeOf(5))
	a.give(small)
	if a.try(1) != nil {
		t.Error("one who came later went first")
	}
	a.give(large)
	if n := <-got; n != sizeOf(5) {
		t.Errorf("%d bytes", n)
	}
	if b := a.try(1); b == nil || a.used() != a.limit {
		t.Errorf("%d of %d bytes are used", a.used(), a.limit)
	}
	wait(1)
	a.close()
	if n := <-got; n != 0 || a.take(1, forever) != nil || a.try(1) != nil {
		t.Error("it was closed")
	}
}

func (a *account) waiters() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}
