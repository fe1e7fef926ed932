package measure

import (
	"encoding/binary"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Shape says what a load looks like.
type Shape struct {
	Size     int  `json:"size"`
	RespSize int  `json:"resp_size"`
	Window   int  `json:"window"` // RPCs in flight
	Batch    int  `json:"batch"`  // issued together
	Sessions int  `json:"sessions"`
	Random   bool `json:"random"` // each RPC goes to a session at random, else to the next in turn

	reqType uint8  // 0 means typeBench
	arg     uint32 // first four bytes of a request of another type
}

// sampleEvery is the share of RPCs whose latency is recorded under load. Which ones these are is
// random: windows and sessions have periods.
const sampleEvery = 16

// load keeps a window of RPCs in flight on one Rpc: each ended one starts the next.
// It belongs to the Rpc's thread and allocates nothing per RPC.
type load struct {
	Shape
	asked    Shape // as it was given
	rpc      *erpc.Rpc
	sessions []*erpc.Session
	ops      []loadOp
	idle     []uint32 // ops to start
	inFlight int
	stopping bool
	finish   erpc.Continuation
	rng      uint64           // of Random
	ahead    [8]*erpc.Session // of Random: chosen already, on their way into the cache

	now    monotime.Time // the clock, read at most once per pass; the loop's owner sets it to 0
	every  uint64
	gaps   uint64 // the state of random skips
	skip   uint64 // RPCs until the next one whose latency is recorded
	hist   *hdrhistogram.Histogram
	begun  monotime.Time
	lastAt monotime.Time // when the last RPC ended
	done   uint64
	errs   uint64
	marks  []mark        // of done over time
	pace   time.Duration // from one mark to the next
	due    time.Duration // when the next one is
	err    error         // the last one
	dead   error         // why no more can be started
}

type loadOp struct {
	req, resp *erpc.MsgBuffer
	sess      *erpc.Session // unless Random
	started   monotime.Time
}

// newHistogram records 1 ns to 60 s with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60e9, 3) }

// newLoad prepares a load with sessions that dial opens.
func newLoad(r *erpc.Rpc, s Shape, dial func() (*erpc.Session, error)) (*load, error) {
	l := &load{Shape: s, asked: s, rpc: r, hist: newHistogram(), every: sampleEvery}
	l.marks = make([]mark, 0, 2*marksPerRound)
	if s.reqType == 0 {
		l.reqType, s.arg = TypeBench, uint32(s.RespSize)
	}
	if s.Window <= 8 {
		l.every = 1
	}
	l.finish = l.onDone
	for range s.Sessions {
		sess, err := dial()
		if err != nil {
			return nil, err
		}
		l.sessions = append(l.sessions, sess)
	}
	for i := range s.Window {
		req, err := r.Alloc(s.Size)
		if err != nil {
			l.free()
			return nil, err
		}
		clear(req.Data())
		if s.Size >= 4 {
			binary.LittleEndian.PutUint32(req.Data(), s.arg)
		}
		resp, err := r.Alloc(s.RespSize)
		if err != nil {
			req.Free()
			l.free()
			return nil, err
		}
		l.ops = append(l.ops, loadOp{req: req, resp: resp, sess: l.sessions[i%len(l.sessions)]})
		l.idle = append(l.idle, uint32(i))
	}
	return l, nil
}

// begin counts from zero and starts the window.
func (l *load) begin(keepLatency bool) {
	if !keepLatency {
		l.hist.Reset()
	}
	l.done, l.errs, l.stopping, l.now, l.skip = 0, 0, false, 0, l.gap()
	l.marks, l.due = l.marks[:0], l.pace
	l.begun = l.clock()
	l.lastAt = l.begun
	l.start()
}

func (l *load) clock() monotime.Time {
	if l.now == 0 {
		l.now = monotime.Now()
	}
	return l.now
}

// tick is called before each pass: it notes a mark when it is time, and makes the pass read the
// clock if it needs it.
func (l *load) tick() {
	if since := l.now.Sub(l.begun); l.now != 0 && since >= l.due && len(l.marks) < cap(l.marks) {
		l.marks = append(l.marks, mark{since, l.done})
		l.due = (since/l.pace + 1) * l.pace
	}
	l.now = 0
}

// start issues all that is idle.
func (l *load) start() {
	for len(l.idle) > 0 && l.dead == nil {
		i := l.idle[len(l.idle)-1]
		op := &l.ops[i]
		op.started = l.clock()
		_, err := l.rpc.EnqueueRequest(l.session(i),
			erpc.Request{Type: l.reqType, Req: op.req, Resp: op.resp, Done: l.finish, Tag: uint64(i)})
		if err != nil {
			l.err, l.dead = err, err
			return
		}
		l.idle = l.idle[:len(l.idle)-1]
		l.inFlight++
	}
}

// session returns the session for the next RPC, the i-th of the window.
func (l *load) session(i uint32) *erpc.Session {
	if !l.Random {
		return l.ops[i].sess
	}
	next := &l.ahead[l.rng%uint64(len(l.ahead))]
	s := *next
	l.rng = mmix(l.rng)
	*next = l.sessions[(l.rng>>32)*uint64(len(l.sessions))>>32]
	(*next).Prefetch()
	if s == nil { // the first ones
		return l.ops[i].sess
	}
	return s
}

// onDone is the continuation of every RPC.
func (l *load) onDone(c erpc.Completion) {
	l.inFlight--
	now := l.clock()
	if c.Err != nil {
		l.errs++
		l.err = c.Err
		l.rpc.Wake() // errors come from timers too, and the loop may be about to sleep
		if c.Session.Err() != nil {
			l.dead = c.Session.Err()
		}
	} else {
		l.done++
		l.lastAt = now
		if l.skip--; l.skip == 0 {
			l.skip = l.gap()
			took := now.Sub(l.ops[c.Tag].started)
			_ = l.hist.RecordValue(max(1, int64(took))) // beyond a minute: not recorded
		}
	}
	l.idle = append(l.idle, uint32(c.Tag))
	if !l.stopping && len(l.idle) >= l.Batch {
		l.start()
	}
}

// gap draws the RPCs until the next one whose latency is recorded: l.every on average.
func (l *load) gap() uint64 {
	l.gaps = mmix(l.gaps)
	return 1 + (l.gaps>>32)*(2*l.every-1)>>32
}

// mmix is the next state of Knuth's MMIX generator. Its upper half is random enough.
func mmix(state uint64) uint64 { return state*6364136223846793005 + 1442695040888963407 }

// free closes the sessions, which ends what is in flight, and frees the buffers.
func (l *load) free() {
	l.stopping = true
	for _, s := range l.sessions {
		_ = l.rpc.CloseSession(s) // one that ended before is left alone
	}
	for i := range l.ops {
		l.ops[i].req.Free()
		l.ops[i].resp.Free()
	}
	l.ops, l.idle = nil, nil
}

// round is the result of one round of a measurement.
type round struct {
	done, errs uint64
	elapsed    time.Duration
	rate       float64 // per second
	p50, p99   float64 // us
}

// result sums up the round, from its begin to the end of its last RPC.
func (l *load) result() round {
	r := round{done: l.done, errs: l.errs, elapsed: l.lastAt.Sub(l.begun)}
	if r.elapsed > 0 {
		r.rate = float64(r.done) / r.elapsed.Seconds()
	}
	r.p50, r.p99 = float64(l.hist.ValueAtQuantile(50))/1e3, float64(l.hist.ValueAtQuantile(99))/1e3
	return r
}
