package erpc

import (
	"context"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
)

// EndSessions ends the sessions, in all loops, with the peers that choose returns true for, after
// a certificate was revoked, say. It returns how many it ended. Calls of their clients that are
// under way fail with ErrPeerClosed. The keys of these peers open no session any more, also if they
// had none: each needs a new handshake, where certificates and Config.Authorize say whether it is
// still welcome. So change those first.
//
// It waits for clients that have begun a handshake before, Timing.ConnectTimeout at most, since
// they may have been let in by what counted then, and asks again. So choose may be called twice for
// a peer, always in the goroutine of EndSessions, while the loops go on. Of a peer whose packets
// are plain it gets the address, as Peer, and with Config.TrustLocal the user; no key keeps such a
// peer from coming again.
//
// It is safe in any goroutine but that of a loop. If ctx ends before, the error is that of a
// context as in Client.Call; what was ended is ended. A peer that comes back is told to make new
// keys once a second: after a second EndSessions its next session may take as long. The error is
// ErrRequest if choose is nil.
func (s *Server) EndSessions(
	ctx context.Context, choose func(ConnectionState) bool,
) (ended int, err error) {
	s.mu.Lock()
	var rpcs []*Rpc
	for _, r := range s.rpcs {
		rpcs = append(rpcs, r.Rpc)
	}
	s.mu.Unlock()
	return endSessions(ctx, rpcs, choose)
}

// EndSessions is that of a Server, for one endpoint that another goroutine runs, and for sessions
// of both kinds. While nobody runs it, it waits for ctx.
func (r *Rpc) EndSessions(
	ctx context.Context, choose func(ConnectionState) bool,
) (ended int, err error) {
	return endSessions(ctx, []*Rpc{r}, choose)
}

// handshakingEvery is how often EndSessions looks whether handshakes have ended.
const handshakingEvery = 10 * time.Millisecond

func endSessions(
	ctx context.Context, rpcs []*Rpc, choose func(ConnectionState) bool,
) (ended int, err error) {
	if choose == nil {
		return 0, ErrRequest
	}
	since := make([]Time, len(rpcs)) // when a loop was asked first; 0 if nothing is left to wait for
	for i, r := range rpcs {
		n, at, err := r.endChosen(ctx, choose)
		if ended += n; err != nil {
			return ended, err
		}
		since[i] = at
	}
	for i, r := range rpcs {
		if since[i] == 0 {
			continue
		}
		if err := r.awaitHandshakes(ctx, since[i]); err != nil {
			return ended, err
		}
		n, _, err := r.endChosen(ctx, choose)
		if ended += n; err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// endChosen ends the sessions of those peers that are chosen now. If handshakes are under way that
// may end well, it returns the loop's time. A loop that has ended has no sessions.
func (r *Rpc) endChosen(
	ctx context.Context, choose func(ConnectionState) bool,
) (ended int, at Time, err error) {
	var known []engine.Known
	err = r.blockingPost(ctx, func(r *Rpc) {
		known = r.engine.Known()
		if now := r.engine.Now(); r.engine.Handshaking(now) {
			at = now
		}
	})
	known = slices.DeleteFunc(known, func(k engine.Known) bool {
		return !choose(ConnectionState(k.Identity))
	})
	if err == nil && len(known) > 0 {
		err = r.blockingPost(ctx, func(r *Rpc) {
			ended = r.engine.Shut(known)
			r.settle()
		})
	}
	if err == ErrClosed {
		err = nil
	}
	return ended, at, err
}

// awaitHandshakes waits until no handshake is under way that was begun until a time.
func (r *Rpc) awaitHandshakes(ctx context.Context, until Time) error {
	for under := true; under; {
		select {
		case <-time.After(handshakingEvery):
		case <-ctx.Done():
			return contextError(ctx)
		}
		err := r.blockingPost(ctx, func(r *Rpc) { under = r.engine.Handshaking(until) })
		if err == ErrClosed {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
