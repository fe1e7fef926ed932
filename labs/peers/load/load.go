package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/labs/peers/echo"
)

// Config says what to do.
type Config struct {
	Peer     echo.Peer
	Addr     string
	Sizes    echo.Sizes
	Window   int           // RPCs in flight
	Conns    int           // connections that they share, unless each has its own
	Warmup   time.Duration // before the measurement
	Duration time.Duration // of the measurement
	Whole    bool          // all bytes of all responses are compared, not of the warm-up's alone

	// Beside is how many RPCs of BesideSize bytes share the connections meanwhile: echoes, which are
	// not among the figures.
	Beside, BesideSize int

	// CPU returns the CPU time that both processes have used so far, 0 if unknown.
	CPU func() time.Duration
}

// Result holds the figures of a measurement.
type Result struct {
	Hist    *hdrhistogram.Histogram // latencies, ns
	Rpcs    int64
	Elapsed time.Duration // from the first RPC's begin to the last one's end
	CPU     time.Duration
	Conns   int

	// All RPCs, those of the warm-up too, and what this side has sent for them: packets, and system
	// calls; 0 if the peer does not count.
	All            int64
	Packets, Sends uint64

	Beside int64 // RPCs beside, in the measurement

	// Late is how long after their arrival the calls of an open loop began, ns; else nil.
	Late *hdrhistogram.Histogram
}

// newHistogram records 1 ns to 60 s with three digits, as bin/erpc does.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60e9, 3) }

// dial opens the connections that the Config asks for. The caller closes them, after an
// error too.
func (c *Config) dial(ctx context.Context) (conns []echo.Conn, err error) {
	n := min(c.Conns, c.Window)
	if c.Peer.ConnPerCall {
		n = c.Window
	}
	if n < 1 {
		return nil, fmt.Errorf("%d connections for %d RPCs in flight", c.Conns, c.Window)
	}
	for range n {
		conn, err := c.Peer.Dial(ctx, c.Addr, c.Sizes)
		if err != nil {
			return conns, err
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// closeAll adds what goes wrong to err.
func closeAll(conns []echo.Conn, err error) error {
	for _, conn := range conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// Run connects, warms up, measures and disconnects. Any RPC that fails or gives a wrong
// response is an error.
func Run(ctx context.Context, c Config) (res Result, err error) {
	conns, err := c.dial(ctx)
	defer func() { err = closeAll(conns, err) }()
	if err != nil {
		return res, err
	}
	workers, err := newWorkers(c, conns)
	if err != nil {
		return res, err
	}
	more, beside := newBeside(c, conns, workers)
	hists := beside
	for _, w := range workers {
		hists = append(hists, w.latencies())
	}
	crew := append(more, workers...)
	if err := all(ctx, crew, c.Warmup, true); err != nil {
		return res, err
	}
	before := total(hists)
	for _, h := range hists {
		h.Reset()
	}
	cpu, begin := c.CPU(), time.Now()
	if err := all(ctx, crew, c.Duration, c.Whole); err != nil {
		return res, err
	}
	res = Result{Hist: newHistogram(), Elapsed: time.Since(begin), CPU: c.CPU() - cpu,
		Conns: len(conns), All: before + total(hists), Beside: total(beside)}
	for _, w := range workers {
		res.Hist.Merge(w.latencies())
	}
	res.Rpcs = res.Hist.TotalCount()
	for _, conn := range conns {
		if k, ok := conn.(echo.Counted); ok {
			packets, sends := k.Sent()
			res.Packets, res.Sends = res.Packets+packets, res.Sends+sends
		}
	}
	return res, nil
}

// total is how many RPCs the histograms have.
func total(hists []*hdrhistogram.Histogram) (n int64) {
	for _, h := range hists {
		n += h.TotalCount()
	}
	return n
}

// worker is one goroutine of the load.
type worker interface {
	// run does RPCs until over, at least one for each that it keeps in flight, and
	// returns once none is. Whole compares all of each response: that takes longer for
	// large ones, so only a warm-up does it.
	run(ctx context.Context, over *atomic.Bool, whole bool) error
	latencies() *hdrhistogram.Histogram
}

// newWorkers: one for each stream, or one for each RPC in flight.
func newWorkers(c Config, conns []echo.Conn) (list []worker, err error) {
	n := len(conns)
	for i := range c.Window {
		if !c.Peer.Streams {
			list = append(list, newCaller(c.Sizes, uint64(i), conns[i%n].NewCall()))
		} else if i < n {
			s, ok := conns[i].(echo.Stream)
			if !ok {
				return nil, fmt.Errorf("%s: connection of type %T is no stream", c.Peer.Name, conns[i])
			}
			list = append(list, newDriver(c.Sizes, uint64(i), s, (c.Window-i+n-1)/n))
		}
	}
	return list, nil
}

// newBeside makes what goes on beside the workers, and its histograms: further workers, or of
// streams further slots of the drivers.
func newBeside(c Config, conns []echo.Conn, workers []worker) (more []worker,
	hists []*hdrhistogram.Histogram) {
	for i := range c.Beside {
		if d, ok := workers[i%len(workers)].(*driver); ok {
			hists = append(hists, d.addSlot(c.BesideSize))
			continue
		}
		k := newCaller(echo.Sizes{Request: c.BesideSize, Response: c.BesideSize},
			uint64(c.Window+i), conns[i%len(conns)].NewCall())
		more, hists = append(more, k), append(hists, k.hist)
	}
	return more, hists
}

// all runs the workers for d.
func all(ctx context.Context, workers []worker, d time.Duration, whole bool) error {
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	var wg sync.WaitGroup
	errs := make([]error, len(workers))
	for i, w := range workers {
		wg.Go(func() {
			if errs[i] = w.run(ctx, &over, whole); errs[i] != nil {
				over.Store(true)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil { // one is enough: the others failed with it or after it
			return err
		}
	}
	return nil
}

// caller is one goroutine's RPCs, one after the other.
type caller struct {
	call    echo.Call
	request []byte
	fixed   []byte // the response, if it is not an echo
	seq     uint64
	took    []time.Duration // of the last calls; hist has the others
	hist    *hdrhistogram.Histogram
}

// mostTook is how many latencies a caller gathers. A histogram is large, and those of many callers
// would push the peer's own data out of the caches at each call.
const mostTook = 512

func newCaller(z echo.Sizes, id uint64, call echo.Call) *caller {
	k := &caller{
		call: call, request: echo.Payload(z.Request), seq: id << 40, hist: newHistogram(),
		took: make([]time.Duration, 0, mostTook),
	}
	if z.Response != z.Request {
		k.fixed = echo.Payload(z.Response)
	}
	return k
}

func (k *caller) latencies() *hdrhistogram.Histogram { return k.hist }

// run implements worker.
func (k *caller) run(ctx context.Context, over *atomic.Bool, whole bool) (err error) {
	defer func() { err = errors.Join(err, k.record()) }()
	for {
		k.seq++
		echo.Stamp(k.request, k.seq)
		begin := time.Now()
		response, err := k.call(ctx, k.request)
		took := time.Since(begin)
		if err == nil {
			err = echo.Check(k.request, k.fixed, response, whole)
		}
		if err != nil {
			return err
		}
		if k.took = append(k.took, took); len(k.took) == mostTook {
			if err := k.record(); err != nil {
				return err
			}
		}
		if over.Load() {
			return nil
		}
	}
}

// record moves the latencies to the histogram. It fails if one is longer than a minute.
func (k *caller) record() error {
	defer func() { k.took = k.took[:0] }()
	for _, d := range k.took {
		if err := k.hist.RecordValue(max(1, int64(d))); err != nil {
			return err
		}
	}
	return nil
}
