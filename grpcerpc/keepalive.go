package grpcerpc

import (
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/keepalive"

	"github.com/userspace-rpc/erpc/erpc"
)

// Keepalive is erpc's: both sides ping a peer that is silent, in any case. What grpc-go's
// parameters say is how long silence may last. Their defaults and least values are grpc-go's.
const (
	clientTimeLeast = 10 * time.Second
	serverTimeLeast = time.Second
	serverTime      = 2 * time.Hour
	keepTimeout     = 20 * time.Second
	keepMost        = 24 * time.Hour // of each; more is as good as that
	heartbeatLeast  = 50 * time.Millisecond
)

// errTiming is for timing that is given twice.
var errTiming = errors.New("grpcerpc: keepalive parameters say what Heartbeat and FailureTimeout " +
	"of Config.Timing do: give one of them")

// WithKeepaliveParams has a server count as lost that was silent for Time and Timeout together, so
// as grpc-go does: Config.Timing.FailureTimeout is their sum, and Heartbeat a third of Timeout, at
// least 50 ms. Time is at least 10 s, and Timeout 20 s if it is 0; a day is the most of each.
// Without the option it is 3 s. Pings go out without calls too, whatever PermitWithoutStream says:
// a server that is silent for Time, or for Timeout if that is shorter, gets some.
//
// ClientConns with the same parameters share event loops, if they have none of their own.
// WithKeepaliveParams does not go with WithLoops, whose configuration has a Timing, nor with a
// WithConfig that sets these fields of it.
func WithKeepaliveParams(p keepalive.ClientParameters) DialOption {
	return func(o *dialOptions) error {
		p.Time = max(p.Time, clientTimeLeast)
		o.keepalive = &p
		return nil
	}
}

// KeepaliveParams sets how long connections last, as in grpc-go: one that had no call for
// MaxConnectionIdle is closed, and so is one that is MaxConnectionAge old, a tenth more or less, by
// telling its client to go elsewhere. Calls under way end as they would, or after
// MaxConnectionAgeGrace with Unavailable. Zero is for ever.
//
// A client that was silent for Time and Timeout together counts as lost, as with
// WithKeepaliveParams. Time is at least 1 s; zero is 2 h, and 20 s of Timeout, but 3 s for both
// together if both are zero. Until then a client that has died keeps its sessions and connections.
func KeepaliveParams(p keepalive.ServerParameters) ServerOption {
	return func(o *serverOptions) {
		if p.Time > 0 {
			p.Time = max(p.Time, serverTimeLeast)
		}
		o.keepalive = p
	}
}

// keep sets the timing of keepalive parameters, which are not both zero.
func keep(t *erpc.Timing, pause, timeout time.Duration) error {
	if t.Heartbeat != 0 || t.FailureTimeout != 0 {
		return errTiming
	}
	if timeout <= 0 {
		timeout = keepTimeout
	}
	pause, timeout = min(pause, keepMost), min(timeout, keepMost)
	t.FailureTimeout = pause + timeout
	t.Heartbeat = max(timeout/3, heartbeatLeast)
	return nil
}

// keepAlive sets the timing of a ClientConn's loop.
func (o *dialOptions) keepAlive() error {
	k := o.keepalive
	switch {
	case k == nil:
		return nil
	case o.loops != nil:
		return errors.New("grpcerpc: WithLoops has a configuration, whose Timing says what " +
			"WithKeepaliveParams does")
	}
	return keep(&o.config.Timing, k.Time, k.Timeout)
}

// keepAlive sets the timing of a server's loops.
func (o *serverOptions) keepAlive() error {
	k := &o.keepalive
	if k.Time <= 0 && k.Timeout <= 0 {
		return nil
	}
	pause := k.Time
	if pause <= 0 {
		pause = serverTime
	}
	return keep(&o.config.Timing, pause, k.Timeout)
}

// keptLoops are those of ClientConns whose options say how long silence may last, and nothing of
// transports.
var keptLoops = struct {
	mu   sync.Mutex
	list map[erpc.Timing]*Loops
}{list: make(map[erpc.Timing]*Loops)}

// loopsFor returns the Loops of a timing.
func loopsFor(t erpc.Timing) *Loops {
	keptLoops.mu.Lock()
	defer keptLoops.mu.Unlock()
	ls := keptLoops.list[t]
	if ls == nil {
		ls = NewLoops(openAuto, erpc.Config{Timing: t})
		keptLoops.list[t] = ls
	}
	return ls
}
