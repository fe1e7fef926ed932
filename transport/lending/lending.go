package lending

import (
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// flushTries is how often Flush offers packets to an inner transport that takes no more
// before it drops them.
const flushTries = 16

// Counts counts packets and what became of them.
type Counts struct {
	Packets    uint64 // taken by TxBurst
	Flushed    uint64 // sent by Flush
	Dropped    uint64 // never given to the inner transport: by Flush or Close, or after its error
	Violations uint64 // reported
	Lent       uint64 // in the queue now
}

// Transport is a transport that lends. The rules of [transport.Transport] hold for it. What has
// nothing to do with packets or with sleep is the inner transport's.
type Transport struct {
	inner
	caps  transport.Caps
	cfg   Config
	rng   *rand.Rand
	fire  func() // a delay has passed
	again func() // time to try again after a stall

	// mu keeps Close out while packets are sent on. Callers of Close keep clear of
	// TxBurst and RxBurst only, and cannot know when that happens.
	mu       sync.Mutex
	closed   bool
	err      error // of the inner transport: it is unusable
	queue    queue
	ticks    uint64 // delays that have passed or calls made, see mark.after
	retrying bool   // again is on its way
	stalls   uint64
	counts   Counts
}

// inner names the embedded field, the decorated transport, and keeps it unexported.
type inner = transport.Transport

var _ transport.Transport = (*Transport)(nil)

// New decorates a transport, which belongs to the result from then on. The error is a
// *ConfigError.
func New(under transport.Transport, cfg Config) (*Transport, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Transport{inner: under, caps: under.Caps(), cfg: cfg.withDefaults()}
	t.caps.TxCopies = false
	t.rng = rand.New(rand.NewPCG(cfg.Seed, 1))
	t.queue = newQueue(t.cfg.Ring, min(t.cfg.Inline, t.caps.MTU), maphash.MakeSeed())
	t.fire, t.again = t.onDelay, t.onRetry // once: a method value is an allocation
	return t, nil
}

// Caps returns those of the inner transport, but not TxCopies.
func (t *Transport) Caps() transport.Caps { return t.caps }

// TxBurst implements [transport.Transport]. It takes what the ring has room for.
func (t *Transport) TxBurst(items []transport.TxItem) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, transport.ErrClosed
	}
	t.call()
	if t.err != nil {
		return 0, t.err
	}
	n := min(len(items), t.queue.room())
	for i := range items[:n] {
		t.lend(&items[i])
	}
	if n < len(items) {
		t.stalls++
	}
	return n, nil
}

// lend puts a packet into the queue and decides when it may leave.
func (t *Transport) lend(it *transport.TxItem) {
	number := t.counts.Packets
	t.counts.Packets++
	if t.cfg.After == nil {
		t.queue.put(it, number, t.ticks+1+t.rng.Uint64N(uint64(t.cfg.Calls)))
		return
	}
	// Delays have no names: when so many have passed as packets came up to this one,
	// it may leave.
	t.queue.put(it, number, number+1)
	t.cfg.After(t.cfg.Delay+time.Duration(t.rng.Int64N(int64(t.cfg.Jitter)+1)), t.fire)
}

// call counts a call of a transport without After, and sends what it was to wait for.
func (t *Transport) call() {
	if t.cfg.After == nil {
		t.ticks++
		t.sendDue()
	}
}

func (t *Transport) onDelay() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ticks++
	t.sendDue()
}

func (t *Transport) onRetry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retrying = false
	t.sendDue()
}

// sendDue sends the packets that may leave.
func (t *Transport) sendDue() {
	t.send(t.queue.due(t.ticks), false)
	if t.cfg.After != nil && t.queue.due(t.ticks) > 0 && !t.retrying {
		t.retrying = true
		t.cfg.After(stallHold, t.again)
	}
}

// send gives the first n packets to the inner transport, as far as it takes them.
func (t *Transport) send(n int, flush bool) {
	t.check(n, flush)
	for n > 0 {
		run := t.queue.run(n)
		took, err := t.inner.TxBurst(run)
		t.queue.drop(took)
		if flush {
			t.counts.Flushed += uint64(took)
		}
		if err != nil {
			t.err = err
			t.dropAll()
			return
		}
		if n -= took; took < len(run) {
			return
		}
	}
}

// check compares the first n packets with what TxBurst took.
func (t *Transport) check(n int, flush bool) {
	for i := range n {
		v, ok := t.queue.check(i)
		if ok {
			continue
		}
		t.counts.Violations++
		v.Flushed = flush
		if t.cfg.Report == nil {
			panic("lending: " + v.String())
		}
		t.cfg.Report(v)
	}
}

func (t *Transport) dropAll() {
	t.counts.Dropped += uint64(t.queue.n)
	t.queue.drop(t.queue.n)
}

// Flush implements [transport.Transport]. Packets that the inner transport does not
// take in several tries are dropped and counted.
func (t *Transport) Flush() {
	t.flush()
	t.inner.Flush()
}

func (t *Transport) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range flushTries {
		if t.send(t.queue.n, true); t.queue.n == 0 {
			return
		}
		runtime.Gosched()
	}
	t.dropAll()
}

// RxBurst implements [transport.Transport].
func (t *Transport) RxBurst(pkts []transport.RxPacket) (int, error) {
	t.receiving()
	return t.inner.RxBurst(pkts)
}

func (t *Transport) receiving() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call()
}

// Stats returns the counters of the inner transport, which sees packets when they leave
// the queue. Stalls are those of this transport, and what it dropped is counted too.
func (t *Transport) Stats() transport.Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.inner.Stats()
	s.TxStalls = t.stalls
	s.TxDropped += t.counts.Dropped
	return s
}

// Counts returns what happened so far. Only for the using goroutine.
func (t *Transport) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.Lent = uint64(t.queue.n)
	return c
}

// Close closes the inner transport. Packets that are still lent are dropped, unread.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	t.dropAll()
	t.mu.Unlock()
	return t.inner.Close()
}
