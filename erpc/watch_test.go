package erpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// follower notes what a Watcher is told, and says whether calls go elsewhere. It is the loop's.
type follower struct {
	yes           bool
	asked, silent int
	heard         int
	lost          []error
}

func (w *follower) Silent() bool {
	w.asked++
	if w.yes {
		w.silent++
	}
	return w.yes
}

func (w *follower) Heard()         { w.heard++ }
func (w *follower) Lost(err error) { w.lost = append(w.lost, err) }

// ended checks that Lost was called once, with an error that matches want.
func (w *follower) ended(t *testing.T, want error) {
	t.Helper()
	if len(w.lost) != 1 || !errors.Is(w.lost[0], want) {
		t.Errorf("lost: %v, want %v once", w.lost, want)
	}
}

// watch dials a server, whose sessions are one at most.
func (f *farm) watch(w erpc.Watcher) *erpc.Client {
	f.tb.Helper()
	one := f.cfg
	one.MaxSessions, one.Shares.Off = 1, true
	f.servers[0].die()
	f.servers[0].start(one)
	dialed := make(chan *erpc.Client, 1)
	go func() {
		c, err := f.loop.DialWatched(bg, "s0", w)
		is(f.tb, "dial", err, nil)
		dialed <- c
	}()
	c := wait(f, dialed, "dial")
	f.tb.Cleanup(func() {
		f.free()
		is(f.tb, "close", c.Close(), nil)
		is(f.tb, "after Close", last(c.Call(bg, tEcho, id(1))), erpc.ErrClosed)
	})
	return c
}

// newWatched makes a farm of one server, and a Client of it that a follower follows.
func newWatched(t *testing.T) (*farm, *follower, *erpc.Client) {
	checkLeaks(t)
	f, w := newFarm(t, 1), &follower{}
	return f, w, f.watch(w)
}

func last(_ []byte, err error) error { return err }

// TestWatchedSilent: a Watcher is asked about a silent server until it lets calls go elsewhere.
// Then those that wait for a slot end, certainly not run, and so do later ones; a Start waits. All
// goes on when the server is heard.
func TestWatchedSilent(t *testing.T) {
	f, w, c := newWatched(t)
	held := f.calls(of(c), tHold, 0, 8)
	f.holds(8)
	f.servers[0].answer()
	f.servers[0].mute = true
	queued := f.calls(of(c), tHold, 100, 5)
	f.rounds(100 * time.Millisecond)
	if w.asked < 2 || w.heard > 0 || len(w.lost) > 0 {
		t.Fatalf("%+v", w)
	}
	started := make(chan error, 1)
	before := f.loop.Posted()
	is(t, "start", c.Start(tHold, id(50), func(_ []byte, err error) { started <- err }), nil)
	f.until("it came", func() bool { return f.loop.Posted() > before })
	f.servers[0].mute = false
	f.all("a call", held, 8, nil)
	f.holds(6)
	f.servers[0].mute, w.yes = true, true
	more := f.calls(of(c), tHold, 200, 12)
	f.until("it is silent", func() bool { return w.silent == 1 })
	for range 10 { // two had slots
		is(t, "a call that waited", wait(f, more, "it"), erpc.ErrNotRun)
	}
	late := f.calls(of(c), tEcho, 300, 3)
	f.all("a later call", late, 3, erpc.ErrNotRun)
	f.servers[0].mute = false
	f.until("it is heard", func() bool { return w.heard == 1 })
	f.until("all are held", func() bool { f.answer(); return len(queued) == 5 && len(more) == 2 })
	f.all("a call", queued, 5, nil)
	f.all("a call", more, 2, nil)
	is(t, "the start", wait(f, started, "it"), nil)
	f.all("a call", f.calls(of(c), tEcho, 400, 3), 3, nil)
	if w.silent != 1 || w.heard != 1 || len(w.lost) > 0 {
		t.Errorf("%+v", w)
	}
}

// TestWatchedLost: when the last session is lost no other one opens. What waited for a slot ends at
// once, certainly not run, and the Watcher is told once.
func TestWatchedLost(t *testing.T) {
	f, w, c := newWatched(t)
	held := f.calls(of(c), tHold, 0, 8)
	f.holds(8)
	queued := f.calls(of(c), tHold, 100, 5)
	f.servers[0].die()
	f.until("it is lost", func() bool { return len(w.lost) > 0 })
	for range 8 {
		if err := wait(f, held, "it"); err == nil || errors.Is(err, erpc.ErrNotRun) {
			t.Errorf("a call under way: %v", err)
		}
	}
	f.all("a call that waited", queued, 5, erpc.ErrNotRun)
	f.all("a later call", f.calls(of(c), tEcho, 300, 3), 3, erpc.ErrNotRun)
	f.servers[0].start(f.cfg)
	f.rounds(2 * time.Second)
	if n := f.loop.Sessions(); n != 0 || len(w.lost) != 1 || f.servers[0].count != 8 {
		t.Errorf("%d sessions, %+v, %d calls ran", n, w, f.servers[0].count)
	}
}

// TestWatchedNil: a Watcher that is nil is an error which names it.
func TestWatchedNil(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 1)
	t.Cleanup(f.free)
	for _, w := range []erpc.Watcher{nil, (*follower)(nil)} {
		dialed := make(chan error, 1)
		go func() {
			_, err := f.loop.DialWatched(bg, "s0", w)
			dialed <- err
		}()
		var e *erpc.ConfigError
		if err := wait(f, dialed, "a dial"); !errors.As(err, &e) || e.Field != "Watcher" {
			t.Errorf("%#v: %v", w, err)
		}
	}
}

// TestWatchedClosed: after Close of the Client, also while its server is silent, and of the Loop,
// the Watcher is told ErrClosed.
func TestWatchedClosed(t *testing.T) {
	for _, how := range []string{"Client", "silent Client", "Loop"} {
		t.Run(how, func(t *testing.T) {
			checkLeaks(t)
			f := newFarm(t, 1)
			w := &follower{yes: true}
			c := f.watch(w)
			if how == "silent Client" {
				_ = f.calls(of(c), tHold, 0, 1)
				f.holds(1)
				f.servers[0].mute = true
				f.until("it is silent", func() bool { return w.silent == 1 })
			}
			f.free()
			if how == "Loop" {
				is(t, "close the loop", f.loop.Close(), nil)
			} else {
				is(t, "close", c.Close(), nil)
			}
			w.ended(t, erpc.ErrClosed)
		})
	}
}

// TestWatchedGivenUp: when the context of a dial ends the Watcher is told ErrClosed, as after
// Close.
func TestWatchedGivenUp(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 1)
	f.servers[0].mute = true
	w := &follower{}
	ctx, cancel := context.WithCancel(bg)
	dialed := make(chan error, 1)
	go func() {
		_, err := f.loop.DialWatched(ctx, "s0", w)
		dialed <- err
	}()
	f.until("it waits", func() bool { return f.loop.Sessions() > 0 })
	cancel()
	is(t, "dial", wait(f, dialed, "its end"), erpc.ErrCancelled)
	w.ended(t, erpc.ErrClosed)
}

// TestWatchedSpent: a Client that has lost its session opens no other one, for Ready neither.
func TestWatchedSpent(t *testing.T) {
	f, w, c := newWatched(t)
	held := f.calls(of(c), tHold, 0, 1)
	f.holds(1)
	f.servers[0].die()
	f.servers[0].start(f.cfg)
	f.until("it is lost", func() bool { return len(w.lost) > 0 })
	w.ended(t, erpc.ErrPeerRestarted)
	err := wait(f, held, "it")
	if is(t, "the call", err, erpc.ErrPeerRestarted); !strings.HasSuffix(err.Error(), "unknown") {
		t.Errorf("the call: %v", err)
	}
	ready := make(chan error, 1)
	go func() { ready <- c.Ready(bg) }()
	late := f.calls(of(c), tEcho, 10, 1)
	for what, ch := range map[string]chan error{"Ready": ready, "a call": late} {
		is(t, what, wait(f, ch, what), erpc.ErrPeerRestarted, erpc.ErrNotRun)
	}
	f.rounds(2 * time.Second)
	if n := f.loop.Sessions(); n != 0 {
		t.Errorf("%d sessions", n)
	}
	w.ended(t, erpc.ErrPeerRestarted)
}
