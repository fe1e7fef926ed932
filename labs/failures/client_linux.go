package failures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/labs/peers/echo"
)

const (
	callers  = 32
	servers  = 3
	deadline = time.Second
	slowCall = 200 * time.Millisecond
	window   = 100 * time.Millisecond
	watching = 1500 * time.Millisecond // after a fault
	restFor  = 10 * time.Millisecond   // a caller whose call has failed
	warmUp   = 300 * time.Millisecond
	before   = 400 * time.Millisecond
	// overdue is how much later than its deadline a call may end: the machine is busy.
	overdue = 150 * time.Millisecond
	// hung is how much later means that a call hung, if the client had time.
	hung     = time.Second
	noticing = 50 * time.Millisecond // until a silent server can be known
)

// ended is one call. Times are since the client's start.
type ended struct {
	begun, at time.Duration
	err       error
}

// load keeps callers calling.
type load struct {
	k     *kind
	begun time.Time
	stop  atomic.Bool
	each  [callers][]ended
	wrong atomic.Int64
	gap   atomic.Int64 // the longest that a goroutine overslept
	wait  sync.WaitGroup
}

func (l *load) start() {
	l.begun = time.Now()
	for i := range l.each {
		l.wait.Go(func() { l.caller(i) })
	}
	l.wait.Go(l.sleeper)
}

// sleeper notes when the machine has no time for this process.
func (l *load) sleeper() {
	for last := time.Now(); !l.stop.Load(); {
		time.Sleep(time.Millisecond)
		now := time.Now()
		l.gap.Store(max(l.gap.Load(), int64(now.Sub(last))))
		last = now
	}
}

// caller makes one call after the other.
func (l *load) caller(i int) {
	request := echo.Payload(32)
	for seq := uint64(i) << 32; !l.stop.Load(); seq++ {
		echo.Stamp(request, seq)
		e := ended{begun: time.Since(l.begun)}
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		var response []byte
		response, e.err = l.k.call(ctx, request)
		cancel()
		e.at = time.Since(l.begun)
		if e.err == nil && echo.Check(request, nil, response, true) != nil {
			l.wrong.Add(1)
		}
		l.each[i] = append(l.each[i], e)
		if e.err != nil {
			time.Sleep(restFor)
		}
	}
}

// sample has the figures of one round of a cell.
type sample struct {
	Rate     float64 // calls per second before the fault
	Failed   int
	Slow     int
	LateSlow int           // ... that began when a silent server could be known
	Slowest  time.Duration // of all calls
	Back     time.Duration // -1: never
	Left     time.Duration // -1: never, or nobody says
	Good     float64       // calls that succeeded, of those expected
	Early    int           // calls that failed before the fault
	Wrong    int           // answers
	Twice    int           // calls whose handler ran more than once
	Gap      time.Duration // that the machine had no time for the client
	Errors   map[string]int
	Signs    []string // of metrics
	Top      string
	Trace    string
}

// busy reports whether the machine had too little time for the lab.
func (s *sample) busy() bool { return s.Gap > 50*time.Millisecond }

// call is the client's process: it connects, calls, notes the fault when it is told, and says what
// happened.
func (r *role) call() error {
	k, err := r.dial()
	if err != nil {
		return err
	}
	if err := r.await(k); err != nil {
		return err
	}
	l := &load{k: k}
	l.start()
	time.Sleep(warmUp)
	w := watchClient(k)
	time.Sleep(before)
	fmt.Println("steady")
	var fault time.Duration
	var left atomic.Int64
	left.Store(-1)
	orders(func(word, rest string) {
		switch word {
		case "fault":
			w.begin()
			fault = time.Since(l.begun)
			go watchLeft(k, l, fault, &left)
			fmt.Println("marked")
		case "moved":
			if k.moved != nil {
				k.moved(strings.Split(rest, ","))
			}
		case "stop":
			w.end()
			until := time.Since(l.begun)
			l.stop.Store(true)
			l.wait.Wait()
			s := l.sum(fault, until)
			s.Left = time.Duration(left.Load())
			s.Signs, s.Top, s.Trace = w.signs, w.top, w.trace
			text, err := json.Marshal(s)
			if err != nil {
				panic(err)
			}
			fmt.Println("result", string(text))
		}
	})
	return nil
}

// await waits until all servers get calls, as far as the client says.
func (r *role) await(k *kind) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	if k.ready != nil {
		if err := k.ready(ctx); err != nil {
			return err
		}
	}
	request := echo.Payload(idBytes)
	for id := uint64(callers) << 32; ; id++ {
		echo.Stamp(request, id)
		if _, err := k.call(ctx, request); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return fmt.Errorf("no answer within %v: %w", patience/2, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// watchLeft notes when the client has left a server.
func watchLeft(k *kind, l *load, fault time.Duration, left *atomic.Int64) {
	for k.left != nil && !l.stop.Load() {
		if k.left() {
			left.Store(int64(time.Since(l.begun) - fault))
			return
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// sum puts the calls together. Until is when callers were told to stop.
func (l *load) sum(fault, until time.Duration) *sample {
	s := &sample{Errors: make(map[string]int), Wrong: int(l.wrong.Load()), Back: -1,
		Gap: time.Duration(l.gap.Load())}
	var good []time.Duration
	steady := 0
	for _, e := range slices.Concat(l.each[:]...) {
		took := e.at - e.begun
		s.Slowest = max(s.Slowest, took)
		if e.err == nil {
			good = append(good, e.at)
			if e.at >= fault-before && e.at < fault {
				steady++
			}
		}
		if took > slowCall+s.Gap {
			s.Slow++
			if e.begun > fault+noticing+s.Gap {
				s.LateSlow++
			}
		}
		switch {
		case e.err == nil:
		case e.at < fault:
			s.Early++
		default:
			s.Failed++
			s.Errors[nameOf(e.err)]++
		}
	}
	slices.Sort(good)
	s.Rate = float64(steady) / before.Seconds()
	s.Back = backAfter(good, fault, until, s.Rate)
	first, _ := slices.BinarySearch(good, fault)
	last, _ := slices.BinarySearch(good, until)
	s.Good = float64(last-first) / (s.Rate * (until - fault).Seconds())
	return s
}

// backAfter returns the time from the fault to the first window that has 95 % of a rate, -1 if
// there is none. Good are the times of calls that succeeded, in order.
func backAfter(good []time.Duration, fault, until time.Duration, rate float64) time.Duration {
	want := max(1, int(0.95*rate*window.Seconds()))
	for at := fault; at+window <= until; at += time.Millisecond {
		i, _ := slices.BinarySearch(good, at)
		j, _ := slices.BinarySearch(good, at+window)
		if j-i >= want {
			return at - fault
		}
	}
	return -1
}

// sentinels name errors in the table.
var sentinels = []error{erpc.ErrNoServer, erpc.ErrPeerLost, erpc.ErrPeerRestarted,
	erpc.ErrPeerClosed, erpc.ErrDraining, erpc.ErrRefused, erpc.ErrConnect, erpc.ErrResolve,
	erpc.ErrDeadline, erpc.ErrExhausted, erpc.ErrClosed, errNoSession}

// nameOf names an error, and says if it promises that the handler did not run.
func nameOf(err error) string {
	name := ""
	if c := status.Code(err); c != codes.Unknown {
		name = c.String()
	}
	for _, e := range sentinels {
		if name == "" && errors.Is(err, e) {
			name = e.Error()
		}
	}
	if name == "" {
		name = err.Error()
	}
	if errors.Is(err, erpc.ErrNotRun) {
		name += " (not run)"
	}
	return name
}
