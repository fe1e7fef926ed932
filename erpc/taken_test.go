package erpc_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// takenConfigs are those of plain and of sealed packets.
var takenConfigs = map[string]erpc.Config{"plain": {}, "sealed": {PSK: testPSK}}

// TestDisconnectSaysWhatRan: the outcome of a request that had not come when the server ended the
// session is known, that of one whose handler runs is not.
func TestDisconnectSaysWhatRan(t *testing.T) {
	for name, cfg := range takenConfigs {
		t.Run(name, func(t *testing.T) {
			cfg.Slots = 4
			p := newErrPair(t, cfg)
			ran := []*result{p.enqueue(tHold, 10, 0), p.enqueue(tBackground, 10, 0)}
			p.until(func() bool { return len(p.held)+len(p.tasks) == 2 })
			p.send.lose = func([]byte) bool { return true }
			lost := []*result{p.enqueue(tHold, 10, 0), p.enqueue(tHold, 5000, 0), p.enqueue(tHold, 10, 0)}
			p.pass(5)
			is(t, "close", p.server.CloseSession(p.held[0].Session()), nil)
			p.until(func() bool { return ends(ran) && ends(lost) })
			p.runTasks()
			for _, res := range ran {
				is(t, "a request that ran", res.err, erpc.ErrPeerClosed)
				if errors.Is(res.err, erpc.ErrNotRun) {
					t.Errorf("a request that ran ended with %v", res.err)
				}
			}
			for _, res := range lost {
				is(t, "a request that did not", res.err, erpc.ErrPeerClosed, erpc.ErrNotRun)
			}
			p.send.lose = nil
			p.close()
		})
	}
}

// TestDrainSaysWhatRan: what has not come when the server says that it shuts down ends at once.
func TestDrainSaysWhatRan(t *testing.T) {
	for name, cfg := range takenConfigs {
		t.Run(name, func(t *testing.T) {
			p := newErrPair(t, cfg)
			ran := p.enqueue(tHold, 10, 0)
			p.until(func() bool { return len(p.held) == 1 })
			p.send.lose = func([]byte) bool { return true }
			lost := p.enqueue(tHold, 10, 0)
			p.pass(5)
			is(t, "refuse", p.server.Refuse(), nil)
			p.until(func() bool { return lost.ends > 0 })
			is(t, "a request that had not come", lost.err, erpc.ErrDraining, erpc.ErrNotRun)
			p.send.lose = nil
			is(t, "respond", p.held[0].RespondBytes(nil), nil)
			p.until(func() bool { return ran.ends > 0 })
			is(t, "a request that had", ran.err, nil)
			p.close()
		})
	}
}

// deafened is a transport that loses what it is to send while it is mute.
type deafened struct {
	*udp.Conn
	mute atomic.Bool
	lost chan struct{}
}

func (d *deafened) TxBurst(items []transport.TxItem) (int, error) {
	if !d.mute.Load() {
		return d.Conn.TxBurst(items)
	}
	for range items {
		d.lost <- struct{}{}
	}
	return len(items), nil
}

// TestCallsMoveOn: calls that are on their way when their server ends go to the next one, if the
// old one has not taken them.
func TestCallsMoveOn(t *testing.T) {
	for name, cfg := range takenConfigs {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			first, second := newRig(t, cfg), newRig(t, cfg)
			addr := first.serve(t, "127.0.0.1:0")
			tr := &deafened{Conn: listen(t, "127.0.0.1:0"), lost: make(chan struct{}, 1<<20)}
			loop, err := erpc.NewLoop(tr, cfg)
			is(t, "a loop", err, nil)
			defer loop.Close()
			c, err := loop.Dial(bg, addr)
			is(t, "dial", err, nil)
			pool, err := erpc.NewPool(erpc.PoolConfig{Servers: []string{addr}}, loop)
			is(t, "a pool", err, nil)
			defer pool.Close()
			wait := erpc.CallOptions{WaitForReady: true}
			_, err = pool.CallWith(bg, wait, nil, typeEcho, nil)
			is(t, "a call of the pool", err, nil)
			tr.mute.Store(true)
			const calls = 16
			errs := make(chan error, calls)
			for i := range calls {
				go func() {
					if i%2 == 0 {
						errs <- echo(c, typeEcho, i, 10)
						return
					}
					_, err := pool.CallWith(bg, wait, nil, typeEcho, nil)
					errs <- err
				}()
			}
			for range 2 { // bundles of both, or repeats
				eventually(t, tr.lost, "a packet")
			}
			is(t, "close", first.Close(), nil)
			second.serve(t, addr)
			tr.mute.Store(false)
			all(t, errs, calls, nil)
		})
	}
}
