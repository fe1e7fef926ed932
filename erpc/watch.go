package erpc

import (
	"context"
	"errors"
)

// Watcher follows the server of a Client, for programs that choose between servers themselves, as a
// Pool does. Its methods are called in the Client's loop; they must not block, nor call the Client.
type Watcher interface {
	// Silent says that the server owes answers and has been silent for Timing.SilenceTimeout. True
	// means that calls go elsewhere until it is heard: Heard follows, or Lost. After false it is
	// asked again soon. All servers may be silent, for a pause of the network or of this machine, so
	// a Pool says true for at most half of them.
	Silent() bool
	// Heard says that a server which was silent answers again.
	Heard()
	// Lost says, once, that the Client gets no session any more, and why: ErrClosed after its Close
	// and that of its Loop. Those calls go on that are under way to a server which drains. It may
	// come before DialWatched fails.
	Lost(err error)
}

// DialWatched is Dial of a Client that w follows. It opens no session in place of those that it
// loses. While its server is silent or lost, calls end at once and match ErrNotRun, and so do those
// that wait for a slot when that begins. Those of Start wait on while the server is silent. Ready
// of a lost Client fails, as its calls do. Errors: those of Dial, or a *ConfigError if w is nil.
func (l *Loop) DialWatched(ctx context.Context, addr string, w Watcher) (*Client, error) {
	if isNil(w) {
		return nil, &ConfigError{"Watcher", "is nil"}
	}
	to, err := resolve(ctx, l.rpc.tr, addr)
	if l.closed.Load() {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, dialError(addr, l.rpc.tr, to, err)
	}
	c := l.newClient(addr)
	c.addrs = to
	c.member = &member{owner: &watched{Watcher: w}, once: true, c: c, text: addr}
	if err = l.rpc.Post(func(*Rpc) { l.join(c) }); err != nil {
		return nil, err
	}
	if err = c.Ready(ctx); err != nil {
		return nil, errors.Join(dialError(addr, l.rpc.tr, to, err), c.Close())
	}
	return c, nil
}

// watched is a Watcher as the owner of a member.
type watched struct {
	Watcher
	silent, lost bool
}

func (w *watched) mayEject(*member) bool {
	w.silent = w.Silent()
	return w.silent
}

func (w *watched) show(m *member) {
	switch {
	case w.lost || m.state == ServerConnecting:
	case m.state == ServerEjected && m.silent != 0: // it knows
	case m.state != ServerReady:
		w.lost = true
		if m.c.over {
			w.Lost(ErrClosed) // whatever it was before, such as silent
		} else {
			w.Lost(m.err)
		}
	case w.silent:
		w.silent = false
		w.Heard()
	}
}
