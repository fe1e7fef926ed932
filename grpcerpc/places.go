package grpcerpc

import (
	"container/list"
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// places are those of a connection for calls under way, if its server says how many it takes at a
// time (MaxConcurrentStreams). Calls that find none wait in the order in which they came.
type places struct {
	most int // 0: the server does not say

	mu    sync.Mutex
	taken int
	line  list.List // of chan bool: true is a place, false that the connection takes no calls
	shut  bool
}

// enter waits for a place. It reports false if the connection takes no calls; the error is that of
// ctx, if that ends first.
func (p *places) enter(ctx context.Context) (ok bool, err error) {
	if p.most == 0 {
		return true, nil
	}
	p.mu.Lock()
	switch {
	case p.shut:
		p.mu.Unlock()
		return false, nil
	case p.taken < p.most:
		p.taken++
		p.mu.Unlock()
		return true, nil
	}
	turn := make(chan bool, 1)
	e := p.line.PushBack(turn)
	p.mu.Unlock()
	select {
	case ok = <-turn:
		return ok, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.line.Remove(e) // in vain if its turn has come
	p.mu.Unlock()
	select {
	case ok = <-turn:
		if ok {
			p.leave()
		}
	default:
	}
	return false, status.FromContextError(ctx.Err()).Err()
}

// leave gives a place to the call that has waited longest.
func (p *places) leave() {
	if p.most == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.line.Front(); e != nil {
		p.line.Remove(e).(chan bool) <- true
		return
	}
	p.taken--
}

// close sends away all calls that wait.
func (p *places) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	for e := p.line.Front(); e != nil; e = p.line.Front() {
		p.line.Remove(e).(chan bool) <- false
	}
}

// fits returns an error for a call whose metadata is beyond what the server takes, if it says that.
func (l *link) fits(c *callInfo) error {
	if l.maxHeaders == 0 {
		return nil
	}
	authority := c.called
	if authority == "" {
		authority = l.authority
	}
	size := frame.HeaderSize(c.method, authority, l.cc.opts.userAgent, c.md)
	if size <= l.maxHeaders {
		return nil
	}
	return status.Errorf(codes.Internal,
		"header list size to send (%d bytes) violates the maximum size (%d bytes) set by server",
		size, l.maxHeaders)
}
