package grpcerpc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"

	"github.com/userspace-rpc/erpc/erpc"
)

// errSilent is why a silent server gets no calls.
var errSilent = fmt.Errorf("%w: it owes answers and is silent", erpc.ErrPeerLost)

// subConn is a connection to the first of its addresses that answers.
type subConn struct {
	balancer.SubConn // nil: grpc may add methods
	cc               *ClientConn
	policy           *policy // which asked for it
	creds            *connCreds
	tell             func(balancer.SubConnState)

	mu       sync.Mutex
	addrs    []resolver.Address
	state    connectivity.State
	link     *link // while it is ready
	cancel   context.CancelFunc
	timer    *time.Timer // until the next try
	failures int
	told     connectivity.State // what the balancer knows
	hushed   bool               // the link is there, but its server is silent
	quiet    *link              // in place of link: calls go to others
	health   health

	producing sync.Mutex
	producers map[balancer.ProducerBuilder]*producer
}

// String names the connection in what balancers log.
func (sc *subConn) String() string { return fmt.Sprintf("SubConn(%p)", sc) }

// set changes the state and tells the balancer. The lock is held.
func (sc *subConn) set(state connectivity.State, err error) {
	if sc.state == state || sc.state == connectivity.Shutdown {
		return
	}
	sc.state = state
	sc.cc.serial.do(func() {
		sc.closeProducers()
		sc.mu.Lock()
		sc.told = state
		sc.health.listen(nil) // a listener is of the state that it was registered in
		sc.mu.Unlock()
		sc.cc.mu.Lock()
		left := sc.policy.left()
		sc.cc.mu.Unlock()
		if !left {
			sc.tell(balancer.SubConnState{ConnectivityState: state, ConnectionError: err})
		}
	})
}

// Connect begins to connect, if the connection is idle.
func (sc *subConn) Connect() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.state != connectivity.Idle {
		return
	}
	if l := sc.quiet; l != nil { // it was heard again
		sc.link, sc.quiet = l, nil
		sc.set(connectivity.Connecting, nil)
		sc.set(connectivity.Ready, nil)
		return
	}
	var ctx context.Context
	ctx, sc.cancel = context.WithCancel(sc.cc.ctx)
	sc.set(connectivity.Connecting, nil)
	addrs := sc.addrs
	cancel := sc.cancel
	if !sc.cc.background(func() {
		defer cancel()
		sc.connect(ctx, addrs)
	}) {
		cancel()
	}
}

// connect tries the addresses in turn.
func (sc *subConn) connect(ctx context.Context, addrs []resolver.Address) {
	var l *link
	err := error(errNoAddress)
	for _, a := range addrs {
		var opened *link
		ended := func() { sc.lost(opened) }
		ready := make(chan struct{})
		opened, err = sc.cc.openLink(ctx, sc, a, func() {
			sc.cc.background(func() { <-ready; ended() })
		})
		close(ready)
		if l = opened; err == nil || ctx.Err() != nil {
			break
		}
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	switch {
	case sc.state != connectivity.Connecting || ctx.Err() != nil: // nobody wants it any more
		if l != nil {
			l.retire()
		}
	case err != nil:
		sc.set(connectivity.TransientFailure, err)
		sc.timer = time.AfterFunc(sc.cc.pause(sc.failures), sc.rest)
		sc.failures++
	default:
		sc.opened(l)
	}
}

// opened takes a link that was opened. The lock is held.
func (sc *subConn) opened(l *link) {
	sc.failures, sc.hushed = 0, false
	if !sc.guard(l) {
		sc.link = l
		sc.set(connectivity.Ready, nil)
	}
	if !l.alive() {
		sc.takeLink()
		sc.set(connectivity.Idle, nil)
	}
}

// pause returns how long to wait after so many failures and one.
func (cc *ClientConn) pause(failures int) time.Duration {
	b := cc.opts.backoff
	d := float64(b.BaseDelay)
	for range failures {
		if d *= b.Multiplier; d >= float64(b.MaxDelay) {
			d = float64(b.MaxDelay)
			break
		}
	}
	return time.Duration(d * (1 + b.Jitter*(2*rand.Float64()-1)))
}

// rest makes the connection idle after a pause.
func (sc *subConn) rest() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.state == connectivity.TransientFailure {
		sc.set(connectivity.Idle, nil)
	}
}

// lost makes the connection idle when its link has ended.
func (sc *subConn) lost(l *link) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if l != nil && (sc.link == l || sc.quiet == l) {
		sc.takeLink()
		sc.set(connectivity.Idle, nil)
	}
}

// silent keeps calls from a server that owes answers and is silent. A balancer that listens for the
// health of connections hears of it so. For others the connection fails, and is idle when the
// server is heard: then it is there at once. It runs in cc.serial.
func (sc *subConn) silent(l *link) {
	sc.mu.Lock()
	sc.hushed = sc.link == l || sc.quiet == l
	tell := sc.health.tell
	switch {
	case sc.link != l:
		tell = nil
	case tell == nil:
		sc.link, sc.quiet = nil, l
		sc.set(connectivity.TransientFailure, errSilent)
	}
	sc.mu.Unlock()
	if tell != nil {
		tell(silence)
	}
}

// silence tells balancers of a silent server.
var silence = balancer.SubConnState{
	ConnectivityState: connectivity.TransientFailure, ConnectionError: errSilent,
}

// heard follows silent when the server was heard.
func (sc *subConn) heard(l *link) {
	sc.mu.Lock()
	tell, state := sc.health.tell, sc.health.state
	switch {
	case sc.quiet == l && !sc.health.sick:
		sc.set(connectivity.Idle, nil)
		tell = nil
	case sc.link != l || !sc.hushed:
		tell = nil
	}
	sc.hushed = false
	sc.mu.Unlock()
	if tell != nil {
		tell(state)
	}
}

// use returns the link with one call counted in, nil if there is none.
func (sc *subConn) use() *link {
	sc.mu.Lock()
	l, hushed := sc.link, sc.hushed
	sc.mu.Unlock()
	if l == nil || hushed || !l.acquire() {
		return nil
	}
	return l
}

// takeLink returns the link, usable or not, which the connection has no more. The lock is held.
func (sc *subConn) takeLink() *link {
	l := sc.link
	if l == nil {
		l = sc.quiet
	}
	sc.link, sc.quiet, sc.hushed = nil, nil, false
	sc.health.end()
	return l
}

// UpdateAddresses replaces the addresses, and connects to them anew.
func (sc *subConn) UpdateAddresses(list []resolver.Address) {
	sc.mu.Lock()
	sc.addrs = list
	l := sc.takeLink()
	if sc.cancel != nil {
		sc.cancel()
	}
	sc.set(connectivity.Idle, nil)
	sc.mu.Unlock()
	if l != nil {
		l.retire()
	}
	sc.Connect()
}

// Shutdown ends the connection when its calls have ended.
func (sc *subConn) Shutdown() {
	sc.cc.forget(sc)
	sc.closeProducers() // in vain for those that are built later, whose calls fail
	sc.mu.Lock()
	l := sc.takeLink()
	if sc.cancel != nil {
		sc.cancel()
	}
	if sc.timer != nil {
		sc.timer.Stop()
	}
	sc.set(connectivity.Shutdown, nil)
	sc.mu.Unlock()
	if l != nil {
		l.retire()
	}
}
