package erpc_test

import (
	"errors"
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

func last(_ []byte, err error) error { return err }

// TestWatchedSilent: a Watcher is asked about a silent server until it lets calls go elsewhere.
// Then those that wait for a slot end, certainly not run, and so do later ones; a Start waits. All
// goes on when the server is heard.
func TestWatchedSilent(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 1)
	w := &follower{}
	c := f.watch(w)
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
	checkLeaks(t)
	f := newFarm(t, 1)
	w := &follower{}
	c := f.watch(w)
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
