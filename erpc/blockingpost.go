package erpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// pushEvery is how often a blocking post looks for room in the ring of commands while that is full.
const pushEvery = time.Millisecond

// blockingPost has fn run in the loop and waits for it no longer than ctx. One is under way at a
// time, so a loop that is stuck gathers none; others wait for it, no longer than their contexts
// either. After an error fn has not run and will not. Errors: ErrClosed, those of a context as in
// Client.Call.
func (r *Rpc) blockingPost(ctx context.Context, fn func(*Rpc)) error {
	select {
	case r.blockingPosts <- struct{}{}:
	case <-ctx.Done():
		return contextError(ctx)
	}
	release := sync.OnceFunc(func() { <-r.blockingPosts })
	done := make(chan struct{})
	var begun atomic.Bool // or given up
	err := r.postUntil(ctx, command{fn: func(r *Rpc) {
		release()
		if !begun.Swap(true) {
			fn(r)
			close(done)
		}
	}})
	if err != nil {
		if begun.Swap(true) {
			<-done // it ran beside Close
			return nil
		}
		release()
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		if begun.Swap(true) {
			<-done
			return nil
		}
		return contextError(ctx) // the loop releases when it meets the command
	}
}

// postUntil is post that waits for room no longer than ctx, and does not spin.
func (r *Rpc) postUntil(ctx context.Context, c command) error {
	for !r.commands.Push(c) {
		if r.closed.Load() {
			return ErrClosed
		}
		r.Wake()
		select {
		case <-ctx.Done():
			return contextError(ctx)
		case <-time.After(pushEvery):
		}
	}
	r.wakeIfSleeping()
	if r.closed.Load() {
		return ErrClosed
	}
	return nil
}
