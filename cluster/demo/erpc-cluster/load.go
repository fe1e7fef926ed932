package main

import (
	"context"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// callers is how many goroutines make calls: a bound on those under way.
const callers = 256

// load makes calls at a rate, and counts who answered.
type load struct {
	pool *cluster.Pool
	ctx  context.Context
	work sync.WaitGroup
	due  chan time.Time // when a call is to begin

	mu     sync.Mutex
	seen   map[string]*answers // by the server's name; since the last take
	failed map[string]int      // by the error
	late   int                 // calls that nobody was free to make
	good   time.Time           // when a call ended well last
	gap    time.Duration       // the longest time between two such
	total  totals
	markAt time.Time // of the last mark
	begun  later     // of calls that began since
}

// later counts what came of calls that began after a mark.
type later struct {
	good   time.Duration // when the first one ended well, from the mark on; 0: none has
	failed int
}

// answers are those of one server.
type answers struct {
	count int64
	times *hdrhistogram.Histogram // in microseconds from when the call was due
}

// totals are sums of the whole run.
type totals struct {
	Calls  int64            `json:"calls"`
	Failed map[string]int64 `json:"failed,omitempty"`
	Late   int64            `json:"not_made"`
}

// lost returns how many calls failed.
func (t totals) lost() (n int64) {
	for _, k := range t.Failed {
		n += k
	}
	return n
}

func startLoad(ctx context.Context, pool *cluster.Pool, rate float64) *load {
	l := &load{pool: pool, ctx: ctx, due: make(chan time.Time, callers),
		seen: map[string]*answers{}, failed: map[string]int{}}
	l.total.Failed = map[string]int64{}
	for range callers {
		l.work.Go(l.call)
	}
	l.work.Go(func() { l.pace(rate) })
	return l
}

// pace says when calls are due, in small bursts of a millisecond.
func (l *load) pace(rate float64) {
	defer close(l.due)
	begin, made := time.Now(), 0.0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		now := time.Now()
		for ; made < now.Sub(begin).Seconds()*rate; made++ {
			at := begin.Add(time.Duration(made / rate * float64(time.Second)))
			select {
			case l.due <- at:
			default:
				l.mu.Lock()
				l.late++
				l.total.Late++
				l.mu.Unlock()
			}
		}
	}
}

// call makes calls. One that a server has refused since it may not serve is asked of another.
func (l *load) call() {
	buf := make([]byte, 0, 64)
	for at := range l.due {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		answer, err := l.pool.CallWith(ctx, erpc.CallOptions{Repeat: true}, buf[:0], tName, nil)
		cancel()
		took := time.Since(at)
		l.mu.Lock()
		l.total.Calls++
		l.note(began, err)
		if err != nil {
			l.failed[err.Error()]++
			l.total.Failed[err.Error()]++
		} else {
			a := l.seen[string(answer)]
			if a == nil {
				a = &answers{times: hdrhistogram.New(1, 10_000_000, 2)}
				l.seen[string(answer)] = a
			}
			a.count++
			now := time.Now()
			if !l.good.IsZero() {
				l.gap = max(l.gap, now.Sub(l.good))
			}
			l.good = now
			_ = a.times.RecordValue(max(took.Microseconds(), 1)) // two seconds are in its range
		}
		l.mu.Unlock()
	}
}

// note counts a call that has ended, if it began after the last mark.
func (l *load) note(began time.Time, err error) {
	switch {
	case l.markAt.IsZero() || began.Before(l.markAt):
	case err != nil:
		l.begun.failed++
	case l.begun.good == 0:
		l.begun.good = time.Since(l.markAt)
	}
}

// mark begins to count calls that begin from now on, for later.
func (l *load) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.markAt, l.begun = time.Now(), later{}
}

// later returns what calls saw that began after the last mark.
func (l *load) later() later {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

// taken has the answers and failures since the last time.
type taken struct {
	answers map[string]*answers
	failed  map[string]int
	late    int
	gap     time.Duration
}

// take returns what was seen since the last time.
func (l *load) take() taken {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := taken{l.seen, l.failed, l.late, l.gap}
	l.seen, l.failed, l.late, l.gap = map[string]*answers{}, map[string]int{}, 0, 0
	return t
}

// sums returns the totals.
func (l *load) sums() totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.total
	t.Failed = map[string]int64{}
	for k, v := range l.total.Failed {
		t.Failed[k] = v
	}
	return t
}
