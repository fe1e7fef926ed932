package rdma

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kv/herd"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// loop is the thread of one partition: it alone uses the items and the queue pairs.
type loop struct {
	s       *Server
	part    *herd.Part
	items   *mica.Partition
	ud      *queue
	ring    *ring // design send
	peers   []*peer
	senders int // clients of design send
	list    []verbs.SendWR
	wrote   []*peer // design write: those with answers in this sweep
	tick    monotime.Time
	rest    rest
	dropped uint64
	resets  uint64
	stop    atomic.Bool
	asked   atomic.Bool
	mu      sync.Mutex
	ended   bool
	asks    []func()
}

// tickEvery is how often a partition is told the time. Expired items are looked for during
// sweepTime then, and again after sweepEvery while there may be more.
const (
	tickEvery  = 100 * time.Millisecond
	sweepTime  = 100 * time.Microsecond
	sweepEvery = 10 * time.Millisecond
	sweepSteps = 16 // from one look at the clock to the next
)

func newLoop(s *Server, number int) (l *loop, err error) {
	g := s.cfg.Geometry
	l = &loop{s: s, peers: make([]*peer, s.cfg.Clients), list: make([]verbs.SendWR, 0, herd.Batch)}
	cfg := s.cfg.Store
	cfg.FirstVersion = rand.Uint64() // so that no life of the server has versions of another
	if l.items, err = mica.New(cfg); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = l.items.Close() // the first error counts
		}
	}()
	store := herd.NewStore(l.items, number, g.Partitions)
	if l.part, err = herd.NewPart(g, number, s.cfg.Clients, store); err != nil {
		return nil, err
	}
	const recvs = 512
	if l.ud, err = s.dev.newQueue(s.dev.pd, verbs.UD, recvs); err != nil {
		return nil, err
	}
	if err = l.ud.qp.Open(s.dev.site.Port, s.qkey); err != nil {
		return nil, err
	}
	l.ring, err = s.dev.newRing(l.ud, recvs, g.Slot)
	return l, err
}

// do runs fn in the loop's thread, and waits. The error is ErrClosed if the loop has ended.
func (l *loop) do(fn func()) error {
	done := make(chan struct{})
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return ErrClosed
	}
	l.asks = append(l.asks, func() { fn(); close(done) })
	l.asked.Store(true)
	l.mu.Unlock()
	<-done
	return nil
}

// answerAsks runs what others asked for.
func (l *loop) answerAsks() {
	l.mu.Lock()
	list := l.asks
	l.asks = nil
	l.asked.Store(false)
	l.mu.Unlock()
	for _, fn := range list {
		fn()
	}
}

// run sweeps until the server ends.
func (l *loop) run() {
	runtime.LockOSThread() // the thread ends with the goroutine
	start := monotime.Now()
	for !l.stop.Load() {
		now := monotime.Now()
		if now >= l.tick {
			l.tick = now.Add(tickEvery)
			l.items.SetNow(uint32(now.Sub(start)/time.Second) + 1)
			if l.sweep(now) {
				l.tick = now.Add(sweepEvery)
			}
		}
		if l.asked.Load() {
			l.answerAsks()
		}
		l.rest.pass(now, l.pass())
	}
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.answerAsks()
}

// sweep looks for expired items, and reports whether there may be more.
func (l *loop) sweep(now monotime.Time) bool {
	for end := now.Add(sweepTime); l.items.Sweep(sweepSteps); {
		if monotime.Now() >= end {
			return true
		}
	}
	return false
}

// pass takes what there is, runs it, and posts the answers. It reports false if there was nothing.
func (l *loop) pass() bool {
	if l.senders > 0 {
		l.receive()
	}
	if l.part.Sweep() == 0 {
		return false
	}
	l.post(l.part.Run())
	return true
}

// receive offers datagrams to the partition.
func (l *loop) receive() {
	list, err := l.ring.poll(l.part.Room())
	if err != nil {
		return
	}
	for i := range list {
		wc := &list[i]
		number, slot := int(wc.Imm>>16), int(wc.Imm&0xFFFF)
		frame := l.ring.frame(wc)
		if frame != nil && (number >= len(l.peers) || l.peers[number] == nil ||
			!l.peers[number].source(wc)) {
			number = -1 // a stranger's
		}
		_ = l.part.Offer(number, slot, frame) // it counts what is wrong
		l.ring.free(wc.ID)
	}
	if err := l.ring.flush(); err != nil {
		l.revive()
	}
}

// join begins to serve a client.
func (l *loop) join(p *peer) error {
	if err := l.part.Join(p.number, p.chunk, l.s.answersOf(p.number)); err != nil {
		return err
	}
	l.peers[p.number] = p
	if p.hello.Design == Send {
		l.senders++
	}
	return nil
}

// leave ends serving a client.
func (l *loop) leave(p *peer) {
	if l.peers[p.number] != p {
		return
	}
	l.part.Leave(p.number)
	l.peers[p.number] = nil
	if p.hello.Design == Send {
		l.senders--
	}
}

// post posts all answers of a sweep: the datagrams as one list, and one list for each client of
// design write.
func (l *loop) post(answers []herd.Answer) {
	l.list = l.list[:0]
	for i := range answers {
		a := &answers[i]
		p := l.peers[a.Client]
		wr := p.request(l.s, a)
		if p.hello.Design != Write {
			l.list = append(l.list, wr)
			continue
		}
		if len(p.list) == 0 {
			l.wrote = append(l.wrote, p)
		}
		p.list = append(p.list, wr)
	}
	if len(l.list) > 0 {
		l.send()
	}
	for _, p := range l.wrote {
		n, _ := p.queue.post(p.list) // a queue pair that has failed takes nothing
		l.dropped += uint64(len(p.list) - n)
		p.list = p.list[:0]
	}
	l.wrote = l.wrote[:0]
}

// send posts the datagrams. It drops those that find no room for long: their clients ask again.
func (l *loop) send() {
	rest := l.list
	for range 1000 {
		n, err := l.ud.post(rest)
		rest = rest[n:]
		if err != nil || l.ud.status != verbs.StatusOK {
			l.revive()
		}
		if len(rest) == 0 {
			return
		}
		sys.Yield()
	}
	l.dropped += uint64(len(rest))
}

// revive takes the UD queue pair out of an error state, with all its buffers.
func (l *loop) revive() {
	l.resets++
	if l.ud.reopen(l.s.dev.site.Port, l.s.qkey) != nil {
		return
	}
	for n := 1; n > 0; { // completions of before
		list, err := l.ring.poll(len(l.ring.wc))
		if n = len(list); err != nil {
			return
		}
	}
	l.ring.postAll(len(l.ring.mem) / l.ring.size)
	_ = l.ring.flush() // the next one tries again
}

// rest says how a polling thread goes on after a pass.
type rest struct {
	empty int           // passes without work, one after the other
	since monotime.Time // the first of them
}

const (
	spinPasses = 16
	sleepAfter = 5 * time.Millisecond
	nap        = 50 * time.Microsecond
)

// pass takes note of a pass, and waits as is fitting.
func (r *rest) pass(now monotime.Time, worked bool) {
	if worked {
		r.empty = 0
		return
	}
	if r.empty++; r.empty == 1 {
		r.since = now
	}
	switch {
	case r.empty < spinPasses:
	case now.Sub(r.since) < sleepAfter:
		sys.Yield()
	default:
		time.Sleep(nap)
	}
}
