package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/labs/peers/echo"
)

// tick is the shortest sleep between two arrivals: those that come meanwhile begin together.
// Without it the sleeps would cost more than the calls. A thread's timer in Linux is as coarse.
const tick = 50 * time.Microsecond

// Arrivals are a Poisson process.
type Arrivals struct {
	Rate float64 // calls per second; more than 0
	Seed uint64  // the same seed gives the same arrivals
}

// gaps returns a function that draws the time between an arrival and the next.
func (a Arrivals) gaps() func() time.Duration {
	draw := rand.New(rand.NewPCG(a.Seed, 0))
	return func() time.Duration {
		return time.Duration(draw.ExpFloat64() / a.Rate * float64(time.Second))
	}
}

// Open is Run with calls that arrive as a says. A call's latency counts from its arrival, so
// all that holds a call up counts, in this program too. If Config.Window calls are in flight
// the next one waits, and that counts as well. It returns when all calls that arrived within
// Config.Duration have ended.
func Open(ctx context.Context, c Config, a Arrivals) (res Result, err error) {
	if c.Peer.Streams {
		return res, fmt.Errorf("%s: one goroutine makes all calls of a connection", c.Peer.Name)
	}
	if !(a.Rate > 0) {
		return res, fmt.Errorf("%v calls per second", a.Rate)
	}
	s, err := newSleeper()
	if err != nil {
		return res, err
	}
	defer s.close()
	conns, err := c.dial(ctx)
	defer func() { err = closeAll(conns, err) }()
	if err != nil {
		return res, err
	}
	return newOpenLoop(c, conns, s.sleep).measure(ctx, a)
}

// openLoop is the state of an Open. The goroutine that calls run owns the fields above mu.
type openLoop struct {
	config Config
	conns  []echo.Conn
	sleep  func(time.Duration) error
	made   int    // calls so far, of those that take may make
	seq    uint64 // of the request that was stamped last
	fixed  []byte // the response, if it is not an echo; never written to
	late   *hdrhistogram.Histogram

	mu    sync.Mutex
	freed sync.Cond   // of mu: one came to free
	free  []*openCall // in flight is none of them; the one used last is at the end
	hist  *hdrhistogram.Histogram
	err   error // the first one
}

// openCall has a call and the buffer of its request. It belongs to one call at a time.
type openCall struct {
	call    echo.Call
	request []byte
}

func newOpenLoop(c Config, conns []echo.Conn, sleep func(time.Duration) error) *openLoop {
	o := &openLoop{config: c, conns: conns, sleep: sleep,
		late: newHistogram(), hist: newHistogram()}
	o.freed.L = &o.mu
	if c.Sizes.Response != c.Sizes.Request {
		o.fixed = echo.Payload(c.Sizes.Response)
	}
	return o
}

// measure warms up, then measures. The warm-up has arrivals of its own.
func (o *openLoop) measure(ctx context.Context, a Arrivals) (res Result, err error) {
	warm := Arrivals{Rate: a.Rate, Seed: ^a.Seed}
	if err := o.run(ctx, warm.gaps(), o.config.Warmup, true); err != nil {
		return res, err
	}
	o.hist.Reset()
	o.late.Reset()
	cpu, begin := o.config.CPU(), time.Now()
	if err := o.run(ctx, a.gaps(), o.config.Duration, false); err != nil {
		return res, err
	}
	return Result{Hist: o.hist, Rpcs: o.hist.TotalCount(), Elapsed: time.Since(begin),
		CPU: o.config.CPU() - cpu, Conns: len(o.conns), Late: o.late}, nil
}

// run makes the calls that arrive within d, at least one, and waits for them. Whole compares
// all of each response.
func (o *openLoop) run(ctx context.Context, gap func() time.Duration, d time.Duration,
	whole bool) error {
	var calls sync.WaitGroup
	begin := time.Now()
	for at := gap(); ; {
		arrival := begin.Add(at)
		if err := o.until(arrival); err != nil {
			o.fail(err)
			break
		}
		k := o.take(ctx)
		if k == nil {
			break
		}
		if err := o.late.RecordValue(max(1, int64(time.Since(arrival)))); err != nil {
			o.fail(err) // longer than a minute
			break
		}
		calls.Go(func() { o.one(ctx, k, arrival, whole) })
		if at += gap(); at >= d {
			break
		}
	}
	calls.Wait()
	return o.err
}

// until sleeps until t, if that is not over.
func (o *openLoop) until(t time.Time) error {
	for {
		left := time.Until(t)
		if left <= 0 {
			return nil
		}
		if err := o.sleep(max(left, tick)); err != nil {
			return err
		}
	}
}

// take returns an openCall for the next call, its request stamped. It waits for a call to end if
// too many are in flight, and returns nil if one has failed or ctx has ended.
func (o *openLoop) take(ctx context.Context) *openCall {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.free) == 0 && o.made == o.config.Window && o.err == nil {
		o.freed.Wait()
	}
	if o.err == nil {
		o.err = ctx.Err()
	}
	if o.err != nil {
		return nil
	}
	var k *openCall
	if n := len(o.free); n > 0 {
		k = o.free[n-1]
		o.free = o.free[:n-1]
	} else {
		k = &openCall{call: o.conns[o.made%len(o.conns)].NewCall(),
			request: echo.Payload(o.config.Sizes.Request)}
		o.made++
	}
	o.seq++
	echo.Stamp(k.request, o.seq)
	return k
}

// one is a call in its goroutine.
func (o *openLoop) one(ctx context.Context, k *openCall, arrival time.Time, whole bool) {
	response, err := k.call(ctx, k.request)
	took := time.Since(arrival)
	if err == nil {
		err = echo.Check(k.request, o.fixed, response, whole)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		err = o.hist.RecordValue(max(1, int64(took))) // fails after a minute
	}
	if err != nil && o.err == nil {
		o.err = err
	}
	o.free = append(o.free, k)
	o.freed.Signal()
}

// fail keeps err if it is the first.
func (o *openLoop) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}
