package stubs

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

// Loads by name: what a client does over one connection.
const (
	EchoLoad   = "echo"   // callers make unary calls
	ChatLoad   = "chat"   // a stream for each caller, which sends and receives in turns
	DownLoad   = "down"   // a stream for each caller, in which the server alone sends
	UpLoad     = "up"     // a stream for each caller, in which the client alone sends
	MixedLoad  = "mixed"  // as echo, but one call in Every is of BesideSize
	BesideLoad = "beside" // as echo, beside streams that echo BesideSize
	BlockLoad  = "block"  // as echo, beside calls of BesideSize whose handlers block
	StuckLoad  = "stuck"  // as chat, beside such calls
	IdleLoad   = "idle"   // streams that have echoed a message, and nothing else
)

// Load says what a client does.
type Load struct {
	Kind               string
	Size, Callers      int // bytes of a message; calls or streams at a time
	Beside, BesideSize int // the others at a time, and their bytes
	Every              int // of MixedLoad
	Warmup, Duration   time.Duration
}

// Result holds the figures of a load.
type Result struct {
	Ops, All int64 // calls, or messages there and back, or one way; All: those of the warm-up too
	Beside   int64 // echoes of the others in Elapsed
	Elapsed  time.Duration
	Hist     *hdrhistogram.Histogram // of the calls' times, ns; nil for DownLoad and UpLoad
}

// run is a load under way.
type run struct {
	Load
	conn  Conn
	ctx   context.Context // of all calls
	begun atomic.Bool     // the measurement
	over  atomic.Bool     // it is over
	calls atomic.Int64    // of MixedLoad

	small, large []byte // payloads of Size and BesideSize, made before all workers: it takes its time

	mu     sync.Mutex
	result Result
	errs   []error
}

// Run makes a load over a connection. Begun is called when the warm-up ends, and done when the
// measurement does.
func Run(ctx context.Context, c Conn, l Load, begun, done func()) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Load: l, conn: c, ctx: ctx, small: echo.Payload(l.Size),
		large: echo.Payload(l.BesideSize)}
	r.result.Hist = hdrhistogram.New(1, 60e9, 3)
	var workers sync.WaitGroup
	start := func(n int, work func(*worker) error) {
		for range n {
			workers.Go(func() {
				w := worker{run: r, hist: hdrhistogram.New(1, 60e9, 3)}
				err := work(&w)
				r.add(&w, err)
			})
		}
	}
	if err := r.start(start); err != nil {
		return Result{}, err
	}
	pass(ctx, l.Warmup)
	begun()
	r.begun.Store(true)
	at := time.Now()
	pass(ctx, l.Duration)
	r.over.Store(true)
	r.result.Elapsed = time.Since(at)
	done()
	workers.Wait()
	return r.result, errors.Join(r.errs...)
}

// start starts the workers.
func (r *run) start(start func(int, func(*worker) error)) error {
	switch r.Kind {
	case EchoLoad, MixedLoad:
		start(r.Callers, (*worker).echo)
	case ChatLoad:
		start(r.Callers, func(w *worker) error { return w.chat(w.small, &w.ops) })
	case DownLoad:
		start(r.Callers, (*worker).down)
	case UpLoad:
		start(r.Callers, (*worker).up)
	case BesideLoad:
		start(r.Beside, func(w *worker) error { return w.chat(w.large, &w.beside) })
		start(r.Callers, (*worker).echo)
	case BlockLoad:
		r.block()
		start(r.Callers, (*worker).echo)
	case StuckLoad:
		r.block()
		start(r.Callers, func(w *worker) error { return w.chat(w.small, &w.ops) })
	case IdleLoad:
		return r.idle()
	default:
		return fmt.Errorf("there is no load %q", r.Kind)
	}
	return nil
}

// worker is one caller.
type worker struct {
	*run
	hist        *hdrhistogram.Histogram
	ops, beside int64 // in the measurement
	all         int64
}

func (r *run) add(w *worker, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Ops += w.ops
	r.result.Beside += w.beside
	r.result.All += w.all
	r.result.Hist.Merge(w.hist)
	if err != nil && len(r.errs) < 3 {
		r.errs = append(r.errs, err)
	}
}

// count counts an operation that began at a time, if it is part of the measurement.
func (w *worker) count(n *int64, at time.Time) {
	w.all++
	if w.begun.Load() && !w.over.Load() {
		*n++
		if n == &w.ops {
			_ = w.hist.RecordValue(int64(time.Since(at))) // a minute is more than tests take
		}
	}
}

// echo makes unary calls, and compares the answers.
func (w *worker) echo() error {
	small, large := &bytesValue{Value: w.small}, &bytesValue{Value: w.large}
	for !w.over.Load() {
		in := small
		if w.Kind == MixedLoad && w.calls.Add(1)%int64(w.Every) == 0 {
			in = large
		}
		at, out := time.Now(), new(bytesValue)
		if err := w.conn.Invoke(w.ctx, echoMethod, in, out); err != nil {
			return err
		}
		w.count(&w.ops, at)
		if err := echo.Check(in.Value, nil, out.Value, false); err != nil {
			return err
		}
	}
	return nil
}

// chat sends and receives in turns.
func (w *worker) chat(payload []byte, n *int64) error {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	s, err := w.conn.NewStream(ctx, &chatDesc, prefix+chatDesc.StreamName)
	if err != nil {
		return err
	}
	in := &bytesValue{Value: payload}
	for !w.over.Load() {
		at, out := time.Now(), new(bytesValue)
		if err := s.SendMsg(in); err != nil {
			return err
		}
		if err := s.RecvMsg(out); err != nil {
			return err
		}
		w.count(n, at)
		if err := echo.Check(in.Value, nil, out.Value, false); err != nil {
			return err
		}
	}
	return nil
}

// down receives what the server sends.
func (w *worker) down() error {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	s, err := w.conn.NewStream(ctx, &downDesc, prefix+downDesc.StreamName)
	if err != nil {
		return err
	}
	in := &bytesValue{Value: w.small}
	if err := s.SendMsg(in); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	for !w.over.Load() {
		at, out := time.Now(), new(bytesValue)
		if err := s.RecvMsg(out); err != nil {
			return err
		}
		w.count(&w.ops, at)
		if err := echo.Check(in.Value, nil, out.Value, false); err != nil {
			return err
		}
	}
	return nil
}

// up sends, and compares how many messages have come.
func (w *worker) up() error {
	s, err := w.conn.NewStream(w.ctx, &upDesc, prefix+upDesc.StreamName)
	if err != nil {
		return err
	}
	in := &bytesValue{Value: w.small}
	for !w.over.Load() {
		at := time.Now()
		if err := s.SendMsg(in); err != nil {
			return err
		}
		w.count(&w.ops, at)
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	out := new(bytesValue)
	if err := s.RecvMsg(out); err != nil {
		return err
	}
	return sameCount(out.Value, w.all)
}
