package grpcerpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// health holds what the server of a connection says of its health (gRFC A17). A service config asks
// for that by its healthCheckConfig. Balancers learn of it by a listener; to those that
// have HealthCheckEnabled in its place an unhealthy connection has failed. Without a
// healthCheckConfig all that is connected is healthy. The lock of the subConn guards it.
type health struct {
	guards bool // HealthCheckEnabled; fixed
	sick   bool // the connection is not to be used for it

	number int                         // of the listener
	tell   func(balancer.SubConnState) // the listener; nil: none
	state  balancer.SubConnState       // what it was told, or would have been
	stop   context.CancelFunc          // of what is watched for the listener; nil: nothing
	leave  context.CancelFunc          // of what is watched for guards; nil: nothing
}

// listen replaces the listener.
func (h *health) listen(tell func(balancer.SubConnState)) {
	h.number++
	h.tell = tell
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// end forgets the server.
func (h *health) end() {
	h.sick = false
	if h.leave != nil {
		h.leave()
		h.leave = nil
	}
}

// healthOf returns the service whose health counts, nil if none does.
func (cc *ClientConn) healthOf() *jsonHealth {
	if c := cc.config.Load(); c != nil && !cc.opts.noHealth {
		return c.health
	}
	return nil
}

// RegisterHealthListener tells the last listener that was registered since the connection became
// ready how healthy its server is; nil is none. A server that owes answers and is silent is
// unhealthy, see silent.
func (sc *subConn) RegisterHealthListener(tell func(balancer.SubConnState)) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.health.listen(nil)
	number, l := sc.health.number, sc.link
	if tell == nil || sc.told != connectivity.Ready || l == nil {
		return
	}
	sc.cc.serial.do(func() {
		sc.mu.Lock()
		last := sc.health.number == number
		if last {
			sc.health.tell = tell
		}
		sc.mu.Unlock()
		if !last {
			return
		}
		service := sc.cc.healthOf()
		if service == nil {
			sc.report(number, balancer.SubConnState{ConnectivityState: connectivity.Ready})
			return
		}
		stop := l.watchHealth(service.ServiceName, func(s balancer.SubConnState) {
			sc.cc.serial.do(func() { sc.report(number, s) })
		})
		sc.mu.Lock()
		defer sc.mu.Unlock()
		if sc.health.number == number {
			sc.health.stop = stop
		} else {
			stop()
		}
	})
}

// report tells a listener, if it is the last one, in cc.serial.
func (sc *subConn) report(number int, s balancer.SubConnState) {
	sc.mu.Lock()
	tell := sc.health.tell
	if sc.health.number != number {
		tell = nil
	} else {
		sc.health.state = s
	}
	if sc.hushed {
		s = silence
	}
	sc.mu.Unlock()
	if tell != nil {
		tell(s)
	}
}

// guard keeps the connection from being ready until its server says that it is healthy, if that is
// asked for. The lock is held.
func (sc *subConn) guard(l *link) bool {
	service := sc.cc.healthOf()
	if service == nil || !sc.health.guards {
		return false
	}
	sc.quiet, sc.health.sick = l, true
	sc.health.leave = l.watchHealth(service.ServiceName, func(s balancer.SubConnState) {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		if sc.link != l && sc.quiet != l {
			return
		}
		sc.health.sick = s.ConnectivityState != connectivity.Ready
		switch {
		case sc.health.sick:
			sc.link, sc.quiet = nil, l
		case sc.hushed: // heard makes it idle
			return
		default:
			sc.link, sc.quiet = l, nil
		}
		sc.set(s.ConnectivityState, s.ConnectionError)
	})
	return true
}

// watchHealth asks the server of a link for the health of a service, and says what it hears until
// stop is called or the link takes no more calls. Tell is called in a goroutine.
func (l *link) watchHealth(
	service string, tell func(balancer.SubConnState),
) (stop context.CancelFunc) {
	ctx, stop := context.WithCancel(l.cc.ctx)
	if !l.cc.background(func() {
		defer stop()
		for failures := 0; ctx.Err() == nil && l.alive(); failures++ {
			tell(balancer.SubConnState{ConnectivityState: connectivity.Connecting})
			heard, err := l.hearHealth(ctx, service, tell)
			if ctx.Err() != nil || !l.alive() {
				return
			}
			if status.Code(err) == codes.Unimplemented {
				logger.Error("Subchannel health check is unimplemented at server side, thus health " +
					"check is disabled")
				tell(balancer.SubConnState{ConnectivityState: connectivity.Ready})
				return
			}
			tell(sickness("connection active but received health check RPC error: %v", err))
			if heard {
				failures = -1
				continue
			}
			sleep(ctx, l.cc.pause(failures))
		}
	}) {
		stop()
	}
	return stop
}

// sickness tells balancers of a server that is not healthy.
func sickness(format string, what any) balancer.SubConnState {
	return balancer.SubConnState{ConnectivityState: connectivity.TransientFailure,
		ConnectionError: fmt.Errorf(format, what)}
}

// hearHealth says what one Watch hears, and how that ended. Heard says that there was something.
func (l *link) hearHealth(
	ctx context.Context, service string, tell func(balancer.SubConnState),
) (heard bool, err error) {
	c, err := l.cc.callInfoOf(healthpb.Health_Watch_FullMethodName, nil)
	if err != nil {
		return false, err
	}
	c.only, c.stats, c.retries = l, nil, retries{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := l.cc.newRetryStream(ctx, c, &grpc.StreamDesc{ServerStreams: true}, false)
	if err != nil {
		return false, err
	}
	if err = s.SendMsg(&healthpb.HealthCheckRequest{Service: service}); err == nil {
		err = s.CloseSend()
	}
	for resp := new(healthpb.HealthCheckResponse); ; heard = true {
		if err = s.RecvMsg(resp); err != nil {
			return heard, err
		}
		if resp.Status == healthpb.HealthCheckResponse_SERVING {
			tell(balancer.SubConnState{ConnectivityState: connectivity.Ready})
		} else {
			tell(sickness("connection active but health check failed. status=%s", resp.Status))
		}
	}
}

// choose implements chosen.
func (l *link) choose() (*link, error) {
	if l.acquire() {
		return l, nil
	}
	return nil, status.Error(codes.Unavailable, "the connection has ended")
}

// sleep waits for a while, or for the end of a context.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
