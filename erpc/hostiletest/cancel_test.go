package hostiletest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestCancelStorm gives calls up at any moment, while handlers take any time up to what the calls
// have. No request runs twice, and the first calls after the storm are answered.
func TestCancelStorm(t *testing.T) {
	const callers, most = 64, 3 * time.Millisecond
	l := begin(t)
	book := newLedger()
	var mu sync.Mutex
	holds := l.rng("handlers", 0)
	s := serve(l, steady(), book, func() {
		mu.Lock()
		d := between(holds, 0, most)
		mu.Unlock()
		<-time.After(d)
	})
	clients := make([]*erpc.Client, 2)
	for i := range clients {
		clients[i], _ = dial(l, "127.0.0.1:0", s.addr, steady())
	}
	rounds := l.pick(3, 20)
	for round := range rounds {
		var all sync.WaitGroup
		end := time.Now().Add(l.span() / time.Duration(rounds+1))
		for i := range callers {
			r := l.rng("caller", round*callers+i)
			all.Go(func() {
				for time.Now().Before(end) {
					giveUp(book, clients[i%len(clients)], r, between(r, 0, most))
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		l.within("calls that were given up", done)
		for _, c := range clients {
			must(l, book, c, 50)
		}
	}
	st := s.stats()
	// A call that was given up has its slot until its handler ends, and eight make a session.
	if st.Sessions > callers || st.Memory > maxMemory {
		t.Errorf("the server has %d sessions and %d bytes of message buffers", st.Sessions, st.Memory)
	}
	for _, c := range clients {
		shut(l, c)
	}
	s.stop()
	sum := book.check(l, true)
	if sum.Answered < 100 || sum.Unknown < 100 {
		t.Errorf("seed %d: %d calls answered, %d given up", l.seed, sum.Answered, sum.Unknown)
	}
}

// giveUp makes a call that is cancelled, or meets its deadline, after a time.
func giveUp(book *ledger, c callee, r *rand.Rand, after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	if r.IntN(2) == 0 {
		cancel()
		ctx, cancel = context.WithCancel(context.Background())
		defer time.AfterFunc(after, cancel).Stop()
	}
	defer cancel()
	size := r.IntN(100)
	if r.IntN(4) == 0 {
		size = r.IntN(20_000)
	}
	book.call(ctx, c, uint8(typeWorker+r.IntN(2)), size, 5000)
}
