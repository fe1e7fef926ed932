package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/transport"
)

// Blocking is a Client for any number of goroutines, with a loop in a goroutine of its own.
type Blocking struct {
	c     *Client
	nexus *erpc.Nexus
	rpc   *erpc.Rpc
	stop  chan struct{} // closed by Close
	ended chan struct{} // closed by the loop
	asks  sync.Pool     // of *ask
}

// ask is a request of one goroutine. It is used again when its result has been taken. One whose
// goroutine did not wait for that is not: the loop may still have it.
type ask struct {
	cmd      kv.Command
	deadline monotime.Time
	got      chan Result       // has room for one
	post     func(r *erpc.Rpc) // begins it, in the loop
	done     func(r Result)
}

// ask returns one to use.
func (b *Blocking) ask() *ask {
	if q, ok := b.asks.Get().(*ask); ok {
		return q
	}
	q := &ask{got: make(chan Result, 1)}
	q.done = func(r Result) {
		q.got <- r // from here on its goroutine may use it for another request
		b.rpc.GiveWay()
	}
	q.post = func(*erpc.Rpc) { b.c.Do(q.cmd, q.deadline, q.done) }
	return q
}

// defaultTimeout is the deadline of calls whose context has none.
const defaultTimeout = 10 * time.Second

// Dial makes a Blocking on tr, which it owns. It does not wait for the servers.
func Dial(tr transport.Transport, cfg Config, ec erpc.Config) (*Blocking, error) {
	ec.DialOnly = true
	nexus, err := erpc.NewNexus(ec)
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	r, err := nexus.NewRpc(tr)
	if err != nil {
		return nil, errors.Join(err, nexus.Close())
	}
	c, err := New(r, cfg)
	if err != nil {
		return nil, errors.Join(err, r.Close(), nexus.Close())
	}
	b := &Blocking{c: c, nexus: nexus, rpc: r, stop: make(chan struct{}), ended: make(chan struct{})}
	// The loop is to look at the clock, for repetitions.
	var wake *erpc.Timer
	if wake, err = r.AfterFunc(c.cfg.Backoff, func() { _ = wake.Reset(c.cfg.Backoff) }); err != nil {
		return nil, errors.Join(err, r.Close(), nexus.Close())
	}
	go b.run()
	return b, nil
}

func (b *Blocking) run() {
	defer close(b.ended)
	_ = b.rpc.Run(func() bool {
		if b.c.Poll() {
			b.rpc.Wake()
		}
		select {
		case <-b.stop:
			return true
		default:
			return false
		}
	})
	b.c.Close()
	_ = b.rpc.Close() // ends what is under way
	_ = b.nexus.Close()
}

// Close ends the client, and its sessions with the store first, in an attempt's time at most. Calls
// under way end with ErrClosed.
func (b *Blocking) Close() {
	left := make(chan struct{})
	err := b.rpc.Post(func(*erpc.Rpc) {
		b.c.Leave(b.c.cfg.Clock().Add(b.c.cfg.Attempt), func() { close(left) })
	})
	if err == nil {
		select {
		case <-left:
		case <-b.ended:
		}
	}
	close(b.stop)
	b.rpc.Wake()
	<-b.ended
}

// Do does a request until it is answered or ctx ends. The error is one of this package, of
// package kv, or the context's. When the deadline of ctx has passed the error says why there is no
// answer, such as kv.ErrFull; when ctx was cancelled, the outcome of a write is unknown.
func (b *Blocking) Do(ctx context.Context, cmd kv.Command) (kv.Answer, error) {
	deadline := monotime.Now().Add(defaultTimeout)
	if at, ok := ctx.Deadline(); ok {
		deadline = monotime.Now().Add(time.Until(at))
	}
	q := b.ask()
	q.cmd, q.deadline = cmd, deadline
	if b.rpc.Post(q.post) != nil {
		return kv.Answer{}, ErrClosed
	}
	select {
	case r := <-q.got:
		b.asks.Put(q)
		return r.Answer, r.Err
	case <-ctx.Done():
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return kv.Answer{}, given(cmd, fmt.Errorf("%w: %w", ErrDeadline, ctx.Err()))
		}
	case <-b.ended:
	}
	select { // the loop has the same deadline, and knows more
	case r := <-q.got:
		b.asks.Put(q)
		return r.Answer, r.Err
	case <-b.ended:
		select {
		case r := <-q.got:
			return r.Answer, r.Err
		default:
			return kv.Answer{}, given(cmd, ErrClosed)
		}
	}
}

// given is the error of a request whose end was not waited for.
func given(cmd kv.Command, err error) error {
	if cmd.Op == kv.Get {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// Get returns the value of a key; found is false if there is none.
func (b *Blocking) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	k, err := kv.MakeKey(key)
	if err != nil {
		return nil, false, err
	}
	a, err := b.Do(ctx, kv.Command{Op: kv.Get, Key: k})
	return a.Value.Bytes(), a.Found, err
}

// Put sets a key.
func (b *Blocking) Put(ctx context.Context, key string, value []byte) error {
	k, err := kv.MakeKey(key)
	v, err2 := kv.MakeValue(value)
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	_, err = b.Do(ctx, kv.Command{Op: kv.Put, Key: k, Value: v})
	return err
}

// Delete removes a key; found is false if there was none.
func (b *Blocking) Delete(ctx context.Context, key string) (found bool, err error) {
	k, err := kv.MakeKey(key)
	if err != nil {
		return false, err
	}
	a, err := b.Do(ctx, kv.Command{Op: kv.Delete, Key: k})
	return a.Status == kv.OK, err
}

// CAS sets a key to value if it has the value old; a nil old means that there must be no such
// key. If not, swapped is false and now is the present value, nil if there is none.
func (b *Blocking) CAS(ctx context.Context, key string, old, value []byte,
) (swapped bool, now []byte, err error) {
	k, err := kv.MakeKey(key)
	v, err2 := kv.MakeValue(value)
	o, err3 := kv.MakeValue(old)
	if err = errors.Join(err, err2, err3); err != nil {
		return false, nil, err
	}
	a, err := b.Do(ctx, kv.Command{Op: kv.CAS, Key: k, Value: v, Old: o, Absent: old == nil})
	if a.Found {
		now = a.Value.Bytes()
	}
	return a.Status == kv.OK, now, err
}

// Members returns the addresses of the servers that are known: the cluster's members, once
// it has told them.
func (b *Blocking) Members(ctx context.Context) ([]string, error) {
	got := make(chan []string, 1)
	if err := b.rpc.Post(func(*erpc.Rpc) { got <- b.c.known() }); err != nil {
		return nil, ErrClosed
	}
	select {
	case list := <-got:
		return list, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrDeadline, ctx.Err())
	case <-b.ended:
		return nil, ErrClosed
	}
}

// Call does a request of another type to one server, once.
func (b *Blocking) Call(ctx context.Context, addr string, reqType uint8,
	body []byte) ([]byte, error) {
	type end struct {
		resp []byte
		err  error
	}
	got := make(chan end, 1)
	err := b.rpc.Post(func(r *erpc.Rpc) {
		s, err := b.c.session(b.c.other(addr))
		var req *erpc.MsgBuffer
		if err == nil {
			req, err = r.Alloc(len(body))
		}
		if err == nil {
			copy(req.Data(), body)
			_, err = r.EnqueueRequest(s, erpc.Request{Type: reqType, Req: req, Timeout: defaultTimeout,
				Done: func(d erpc.Completion) {
					e := end{err: d.Err}
					d.Req.Free()
					if d.Err == nil {
						e.resp = append([]byte(nil), d.Resp.Data()...)
						d.Resp.Free()
					}
					got <- e
				}})
			if err != nil {
				req.Free()
			}
		}
		if err != nil {
			got <- end{err: err}
		}
	})
	if err != nil {
		return nil, ErrClosed
	}
	select {
	case e := <-got:
		return e.resp, e.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrDeadline, ctx.Err())
	case <-b.ended:
		return nil, ErrClosed
	}
}
