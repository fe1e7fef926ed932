package erpc_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// directory is a transport that resolves one name to an address that can change.
type directory struct {
	*udp.Conn
	at atomic.Pointer[string]
}

func (d *directory) Resolve(string) (transport.Addr, error) { return d.Conn.Resolve(*d.at.Load()) }

// TestRedialResolves: a Client whose server has come back under the same name with
// another address finds it.
func TestRedialResolves(t *testing.T) {
	checkLeaks(t)
	first, second := newRig(t, erpc.Config{}), newRig(t, erpc.Config{})
	d := &directory{Conn: listen(t, "127.0.0.1:0")}
	addr := first.serve(t, "127.0.0.1:0")
	d.at.Store(&addr)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := erpc.Dial(ctx, d, "server", erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Call(ctx, typeEcho, []byte("one")); err != nil {
		t.Fatal(err)
	}
	moved := second.serve(t, "127.0.0.1:0")
	d.at.Store(&moved)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for { // calls fail until the Client has noticed
		if _, err := c.Call(ctx, typeEcho, []byte("two")); err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// script is a transport whose Resolve gives one answer after the other, and the last one again and
// again. An answer is an address or empty: none is known.
type script struct {
	*udp.Conn
	mu      sync.Mutex
	answers []string
}

func (s *script) Resolve(string) (transport.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	if a == "" {
		return transport.Addr{}, transport.ErrBadAddress
	}
	return s.Conn.Resolve(a)
}

// served returns how many requests a server has served.
func served(g *rig) (n uint64) {
	for _, s := range g.Stats() {
		n += s.RequestsServed
	}
	return n
}

// TestRedialResolvesAgain: a Client whose server is gone, and under whose name there is nothing yet
// or still the old address, finds the server when it is back elsewhere, though it would try one
// address for an hour. One that has found another server meanwhile goes where the name leads then.
func TestRedialResolvesAgain(t *testing.T) {
	checkLeaks(t)
	for name, rest := range map[string]func(old, other, last string) []string{
		"no address":   func(_, _, last string) []string { return []string{"", "", last} },
		"old address":  func(old, _, last string) []string { return []string{old, old, last} },
		"other server": func(_, other, last string) []string { return []string{other, last} },
	} {
		t.Run(name, func(t *testing.T) {
			first := newRig(t, erpc.Config{})
			other, last := newRig(t, erpc.Config{}), newRig(t, erpc.Config{})
			old := first.serve(t, "127.0.0.1:0")
			d := &script{Conn: listen(t, "127.0.0.1:0"), answers: []string{old}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := erpc.Dial(ctx, d, "server", erpc.Config{Timing: erpc.Timing{
				ConnectTimeout: time.Hour,
			}})
			is(t, "dial", err, nil)
			defer c.Close()
			d.mu.Lock()
			d.answers = rest(old, other.serve(t, "127.0.0.1:0"), last.serve(t, "127.0.0.1:0"))
			d.mu.Unlock()
			is(t, "close", first.Close(), nil)
			for served(last) == 0 {
				if _, err := c.Call(ctx, typeEcho, []byte("two")); ctx.Err() != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// stuck is a transport whose Resolve hangs until the test ends.
type stuck struct {
	*udp.Conn
	begun chan struct{}
	over  chan struct{}
}

func (s *stuck) Resolve(string) (transport.Addr, error) {
	close(s.begun)
	<-s.over
	return transport.Addr{}, transport.ErrClosed
}

// TestDialWhileResolveHangs: Dial ends with its context, and the transport with it.
func TestDialWhileResolveHangs(t *testing.T) {
	checkLeaks(t)
	s := &stuck{listen(t, "127.0.0.1:0"), make(chan struct{}), make(chan struct{})}
	defer close(s.over)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := erpc.Dial(ctx, s, "server", erpc.Config{})
		result <- err
	}()
	eventually(t, s.begun, "Resolve")
	cancel()
	is(t, "Dial", eventually(t, result, "Dial"), erpc.ErrCancelled, context.Canceled)
	is(t, "the transport", s.Wait(0), transport.ErrClosed)
}

// TestDialWithEndedContext: nothing is looked up.
func TestDialWithEndedContext(t *testing.T) {
	checkLeaks(t)
	s := &stuck{listen(t, "127.0.0.1:0"), make(chan struct{}), make(chan struct{})}
	defer close(s.over)
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err := erpc.Dial(ctx, s, "server", erpc.Config{})
	is(t, "Dial", err, erpc.ErrDeadline, context.DeadlineExceeded)
	is(t, "the transport", s.Wait(0), transport.ErrClosed)
	select {
	case <-s.begun:
		t.Error("the name was looked up")
	default:
	}
}
