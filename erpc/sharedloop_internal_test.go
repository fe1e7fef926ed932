package erpc

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// TestSortOfConfig: configurations are compared by value, so sortOf must know each field that has
// pointers or functions. Slices are compared by what they hold.
func TestSortOfConfig(t *testing.T) {
	var got []string
	for f := range reflect.TypeFor[Config]().Fields() {
		if refers(f.Type) {
			got = append(got, f.Name)
		}
	}
	want := []string{"Congestion", "TLS", "Keyring", "Authorize", "AuthorizeRequest", "KeyLog",
		"OnSession", "Logger", "Simulation"}
	if !slices.Equal(got, want) {
		t.Errorf("fields that refer to something: %q; sortOf knows %q", got, want)
	}
}

// refers reports whether values of a type can be equal and refer to different things.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Interface, reflect.Map, reflect.Chan:
		return true
	case reflect.Slice:
		return refers(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if refers(f.Type) {
				return true
			}
		}
	}
	return false
}

// TestSharedLoopsForget: whatever the order in which Clients come and go, and Loops end at the same
// time, nothing is left of them.
func TestSharedLoopsForget(t *testing.T) {
	p := &sharedLoops{linger: time.Nanosecond, loops: map[loopSort][]*sharedLoop{}}
	var dialers sync.WaitGroup
	for range 8 {
		dialers.Go(func() {
			for range 200 {
				s := p.join(loopSort{kind: "k"}, &Config{})
				s.make.Do(func() {
					l := &Loop{done: make(chan struct{}), rpc: &Rpc{source: monotime.Now}}
					l.closed.Store(true)
					close(l.done)
					s.loop.Store(l)
				})
				s.leave(&claim{}, false)
			}
		})
	}
	dialers.Wait()
	for left := 1; left > 0; runtime.Gosched() { // until the last timer has run
		p.mu.Lock()
		left = len(p.loops) + len(p.unused)
		p.mu.Unlock()
	}
}

// TestSharedLoopsCrowd: Clients are on as many Loops as there are processors, until each has a
// thousand. Then there are more, so that all have sessions.
func TestSharedLoopsCrowd(t *testing.T) {
	p := &sharedLoops{linger: time.Hour, loops: map[loopSort][]*sharedLoop{}}
	full := loopCrowd * runtime.GOMAXPROCS(0)
	for n := range full + 1 {
		p.join(loopSort{kind: "k"}, &Config{})
		want := min(n+1, runtime.GOMAXPROCS(0))
		if n == full {
			want++
		}
		if got := len(p.loops[loopSort{kind: "k"}]); got != want {
			t.Fatalf("%d Loops for %d Clients, want %d", got, n+1, want)
		}
	}
}

// sharedEnd is a stubEnd that Clients can share.
type sharedEnd struct{ stubEnd }

func (e *sharedEnd) Detach() transport.Transport { return &e.stubEnd }

// TestSharedLoopGivenUp: a Loop whose only dial was given up stays for a while, so that a server
// which opens the session then is told. It ends at once if the dial failed.
func TestSharedLoopGivenUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails error
		waits int
	}{{"given up", nil, 1}, {"failed", errors.New("no such name"), 0}} {
		p := &sharedLoops{linger: time.Hour, loops: map[loopSort][]*sharedLoop{}}
		ctx, cancel := context.WithCancel(t.Context())
		end := new(sharedEnd)
		end.way.MTU, end.onWait = stubMTU, runtime.Gosched
		end.resolve = func(string) (transport.Addr, error) { return stubAddr(1), c.fails }
		end.watch = func(transport.Addr, []byte) { cancel() } // the Connect has left
		own, err := take(end)
		if err == nil {
			_, err = p.dial(ctx, own, "server", loopSort{kind: c.name}, Config{})
		}
		if (ctx.Err() != nil) != (c.fails == nil) || !errors.Is(err, ErrCancelled) && c.fails == nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(p.unused) != c.waits {
			t.Errorf("%s: %d Loops wait for Clients, want %d", c.name, len(p.unused), c.waits)
		}
		for _, s := range slices.Clone(p.unused) {
			s.expire()
		}
		cancel()
	}
}

// TestJoinPassesStuckLoops: a Client gets the Loop with the fewest Clients of those that go on, or
// a further one if there may be more; if none goes on, the one that went on last.
func TestJoinPassesStuckLoops(t *testing.T) {
	const most = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(most))
	type has struct {
		clients int
		began   time.Duration // how long ago the last pass that is known of began
		asleep  bool
	}
	for _, c := range []struct {
		name  string
		loops []has
		want  int // which one it gets
	}{
		{"all go on", []has{{2, 0, false}, {1, 0, false}, {2, 0, false}}, 1},
		{"it sleeps", []has{{2, 0, false}, {1, time.Hour, true}, {2, 0, false}}, 1},
		{"it has just begun", []has{{2, 0, false}, {1, 2 * time.Millisecond, false}, {2, 0, false}}, 1},
		{"one is stuck", []has{{2, 0, false}, {1, 3 * time.Millisecond, false}, {2, 0, false}}, 0},
		{"all but one", []has{{1, time.Second, false}, {1, time.Hour, false}, {9, 0, false}}, 2},
		{"all", []has{{1, time.Hour, false}, {9, time.Second, false}, {1, time.Minute, false}}, 1},
		{"there may be another", []has{{1, time.Second, false}, {1, time.Second, false}}, 2},
		{"it waits for Clients", []has{{1, 0, false}, {0, time.Second, false}}, 1},
	} {
		now := monotime.Time(0).Add(1000 * time.Hour)
		p := &sharedLoops{linger: time.Hour, loops: map[loopSort][]*sharedLoop{}}
		for _, l := range c.loops {
			s := &sharedLoop{among: p, clients: l.clients}
			r := &Rpc{source: func() monotime.Time { return now }}
			r.cfg.Timing.RTOMin = 5 * time.Millisecond
			r.begun.Store(int64(now.Add(-l.began)))
			if l.asleep {
				r.state.Store(asleep)
			}
			s.loop.Store(&Loop{rpc: r})
			p.loops[loopSort{}] = append(p.loops[loopSort{}], s)
		}
		got := p.join(loopSort{}, &Config{})
		if i := slices.Index(p.loops[loopSort{}], got); i != c.want {
			t.Errorf("%s: Loop %d, want %d", c.name, i, c.want)
		}
	}
}
