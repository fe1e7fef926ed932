package erpc_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestLoopClosedQueue: calls that wait for a session, since the server has died and its name is
// looked up, end with the Client or with its Loop, and certainly have not run.
func TestLoopClosedQueue(t *testing.T) {
	for name, end := range map[string]func(f *farm, c *erpc.Client) error{
		"client": func(f *farm, c *erpc.Client) error {
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			return wait(f, closed, "Close")
		},
		"loop": func(f *farm, _ *erpc.Client) error {
			f.free()
			return f.loop.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			f := newFarm(t, 2)
			a, b := f.dial("s0"), f.dial("s1")
			f.servers[0].die()
			f.all("a call to a dead server", f.calls(of(a), tEcho, 0, 3), 3, erpc.ErrPeerLost)
			release := make(chan struct{})
			f.end.mu.Lock()
			f.end.slow["s0"] = release
			f.end.mu.Unlock()
			queued := f.calls(of(a), tEcho, 10, 5)
			f.round()
			is(t, "close", end(f, a), nil)
			for range 5 {
				is(t, "a queued call", eventually(t, queued, "a queued call"), erpc.ErrClosed, erpc.ErrNotRun)
			}
			close(release)
			if name == "client" {
				f.all("a call beside", f.calls(of(b), tEcho, 20, 5), 5, nil)
			}
		})
	}
}

// TestLoopClosedStorm: callers whose calls come just when their Loop ends are told so.
func TestLoopClosedStorm(t *testing.T) {
	checkLeaks(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16)) // a caller stops anywhere
	addr := newRig(t, erpc.Config{}).serve(t, "127.0.0.1:0")
	for range 100 {
		l, err := erpc.NewLoop(listen(t, "127.0.0.1:0"), erpc.Config{})
		is(t, "loop", err, nil)
		c, err := l.Dial(bg, addr)
		is(t, "dial", err, nil)
		begun, ended := make(chan bool, 64), make(chan error, 64)
		for range cap(ended) {
			go func() {
				_, err := c.Call(bg, typeEcho, id(1))
				begun <- true
				for err == nil {
					_, err = c.Call(bg, typeEcho, id(1))
				}
				ended <- err
			}()
		}
		for range cap(begun) {
			eventually(t, begun, "a first call")
		}
		is(t, "close", l.Close(), nil)
		for range cap(ended) {
			if err := eventually(t, ended, "a caller"); !errors.Is(err, erpc.ErrClosed) {
				t.Fatal(err)
			}
		}
	}
}
