package grpcerpc

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
)

// defaultIdle is how long a ClientConn goes without a call until it rests, as in grpc-go.
const defaultIdle = 30 * time.Minute

// WithIdleTimeout has a ClientConn become idle that had no call for so long, an eighth more at
// most: it closes its connections and the resolver. The next call or Connect has it begin anew.
// Default 30 minutes; 0 is never.
func WithIdleTimeout(d time.Duration) DialOption {
	return func(o *dialOptions) error {
		o.idle = d
		return nil
	}
}

// idleness counts the calls of a ClientConn, and has it rest when there was none for a while. Calls
// read no clock for it: a timer looks idleLooks times in that while.
type idleness struct {
	cc     *ClientConn
	calls  atomic.Int64 // under way, and less by asleep while it rests
	recent atomic.Bool  // there was one since the timer looked

	mu     sync.Mutex
	awake  bool
	closed bool
	timer  timer // nil before it was awake, and without a timeout
	quiet  int   // looks that saw no call
}

const (
	idleLooks = 8
	asleep    = math.MinInt32
)

// begin counts a call in. The ClientConn is awake then, or closed.
func (i *idleness) begin() {
	if i.calls.Add(1) <= 0 {
		i.wake()
	}
	if !i.recent.Load() {
		i.recent.Store(true)
	}
}

// end counts a call out.
func (i *idleness) end() { i.calls.Add(-1) }

// wake has the ClientConn not rest any more. It reports whether it did before.
func (i *idleness) wake() (did bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.awake || i.closed {
		return false
	}
	i.cc.wake()
	i.awake, i.quiet = true, 0
	i.calls.Add(-asleep)
	if d := i.cc.opts.idle; d <= 0 {
	} else if i.timer == nil {
		i.timer = i.cc.opts.clock.after(pauseOf(d), i.look)
	} else {
		i.timer.Reset(pauseOf(d))
	}
	return true
}

// pauseOf returns the time between two looks.
func pauseOf(idle time.Duration) time.Duration { return max(idle/idleLooks, 1) }

// look has the ClientConn rest if there was no call for so many looks.
func (i *idleness) look() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || !i.awake {
		return
	}
	if i.quiet++; i.recent.Swap(false) || i.calls.Load() > 0 {
		i.quiet = 0
	}
	if i.quiet >= idleLooks && i.calls.CompareAndSwap(0, asleep) {
		if !i.recent.Load() { // else a call has just come and gone; one that comes now waits for mu
			i.cc.sleep()
			i.awake = false
			return
		}
		i.calls.Add(-asleep)
	}
	i.timer.Reset(pauseOf(i.cc.opts.idle))
}

// close ends it.
func (i *idleness) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	if i.timer != nil {
		i.timer.Stop()
	}
}

// period is a time in which a ClientConn does not rest, and has one resolver.
type period struct {
	resolved chan struct{} // closed when the resolver has said something
	once     sync.Once     // for that
}

// resolve lets calls begin that wait for the first result of the resolver.
func (p *period) resolve() { p.once.Do(func() { close(p.resolved) }) }

// wake makes the resolver.
func (cc *ClientConn) wake() {
	p := &period{resolved: make(chan struct{})}
	cc.mu.Lock()
	if cc.closed {
		cc.mu.Unlock()
		return
	}
	cc.period.Store(p)
	cc.setState(connectivity.Connecting) // so it is while the resolver says nothing
	cc.mu.Unlock()
	r, err := cc.builder.Build(cc.parsed, resolverConn{cc: cc, period: p}, resolver.BuildOptions{
		DisableServiceConfig: cc.opts.noService, Authority: cc.authority,
		DialCreds: cc.credsOverTCP(), CredsBundle: cc.opts.bundle, MetricsRecorder: noMetrics,
	})
	if err != nil {
		cc.serial.do(func() { cc.unresolved(p, err) })
		return
	}
	cc.mu.Lock()
	cc.resolver = r
	closed := cc.closed
	cc.mu.Unlock()
	if closed {
		r.Close()
	}
}

// sleep closes the resolver, the policies and their connections. The service config stays.
func (cc *ClientConn) sleep() {
	cc.mu.Lock()
	if cc.closed {
		cc.mu.Unlock()
		return
	}
	r, both := cc.resolver, cc.policies
	cc.resolver, cc.policies = nil, policies{}
	cc.period.Store(nil) // what a resolver says from now on means nothing
	cc.setState(connectivity.Idle)
	// Nobody waits for the old one.
	cc.picker.Store(&picking{newer: make(chan struct{})})
	cc.mu.Unlock()
	if r != nil {
		r.Close()
	}
	closed := make(chan struct{})
	if cc.serial.do(func() { both.close(); close(closed) }) {
		<-closed
	}
}
