package erpc

import (
	"testing"
	"time"
)

// endedCalls are n calls whose callers wait.
func endedCalls(n int) (list []*goCall) {
	for range n {
		list = append(list, &goCall{ended: make(chan bool, 2)})
	}
	return list
}

// TestHandOutOrder: each caller is woken once, and the loop stands in line behind all but the last
// one, who runs first.
func TestHandOutOrder(t *testing.T) {
	for _, n := range []int{0, 1, 2, 64} {
		for _, waits := range []bool{true, false} {
			list := endedCalls(n)
			h := handout{ended: append([]*goCall(nil), list...), line: make(chan struct{})}
			woken := make(chan struct{})
			go func() {
				h.wake(waits)
				close(woken)
			}()
			if waits && n > 0 {
				<-h.line // nobody is woken meanwhile
				for i, k := range list[:n-1] {
					if len(k.ended) != 1 {
						t.Errorf("%d callers: number %d is not before the loop", n, i)
					}
				}
			}
			<-woken
			for i, k := range list {
				if len(k.ended) != 1 || !<-k.ended {
					t.Errorf("%d callers: number %d was not woken once", n, i)
				}
			}
			if h.wake(false); len(h.ended) > 0 {
				t.Errorf("%d calls are left", len(h.ended))
			}
		}
	}
}

// TestHandOutFair: the loop goes behind all goroutines of the process at times.
func TestHandOutFair(t *testing.T) {
	var h handout
	for range 5 {
		for i := range fairEvery {
			if h.waits() != (i != fairEvery-1) {
				t.Fatalf("hand-out %d", i)
			}
		}
	}
}

// TestHandOutBesideSlowCallers: the loop goes on beside callers whose turns take long, for twice as
// long each time that they do again, and waits behind them when they are quick.
func TestHandOutBesideSlowCallers(t *testing.T) {
	const n = 10
	quick := lineFor + n*lineEach
	var h handout
	apart := func() (beside int) {
		for ; h.apart > 0; beside++ {
			if h.waits() {
				t.Fatal("waits behind callers that were slow")
			}
		}
		return beside
	}
	for range 1000 { // one slow turn in five, as a system makes that has other work
		for range slowTurn {
			h.took(n, quick)
		}
		if h.took(n, quick+time.Millisecond); apart() > 0 {
			t.Fatal("goes on beside callers that are quick")
		}
	}
	want := minApart
	for range 20 {
		h.took(n, quick+1)
		for h.apart == 0 {
			h.took(n, quick+1)
		}
		if got := apart(); got != want {
			t.Fatalf("beside slow callers %d times, want %d", got, want)
		}
		want = min(2*want, maxApart)
	}
	for range 2 * trustTurns {
		h.took(n, quick)
	}
	for h.apart == 0 {
		h.took(n, quick+1)
	}
	if got := apart(); got != maxApart/2 {
		t.Errorf("beside slow callers %d times after some quick turns, want %d", got, maxApart/2)
	}
}
