package erpc_test

import (
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// gated is a transport whose loop can be kept asleep.
type gated struct {
	*udp.Conn
	mu     sync.Mutex
	asleep chan struct{} // closed when the loop sleeps; nil: it may wake up
	wake   chan struct{}
}

// hold keeps the loop asleep, from the next time that it is, until wake is called.
func (g *gated) hold() (asleep <-chan struct{}, wake func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asleep, g.wake = make(chan struct{}), make(chan struct{})
	return g.asleep, sync.OnceFunc(func() { close(g.wake) })
}

func (g *gated) Wait(timeout time.Duration) error {
	g.mu.Lock()
	asleep, wake := g.asleep, g.wake
	g.asleep = nil
	g.mu.Unlock()
	if asleep != nil {
		close(asleep)
		<-wake
	}
	return g.Conn.Wait(timeout)
}

// TestCallsBehindRestart: a server restarts while its client's loop sleeps, and then calls begin.
// The loop finds the word of the old server and the calls when it wakes up: they go to the new one.
func TestCallsBehindRestart(t *testing.T) {
	checkLeaks(t)
	first, second := newRig(t, erpc.Config{}), newRig(t, erpc.Config{})
	addr := first.serve(t, "127.0.0.1:0")
	tr := &gated{Conn: listen(t, "127.0.0.1:0")}
	c, err := erpc.Dial(bg, tr, addr, erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	is(t, "a call", echo(c, typeEcho, 1, 10), nil)
	asleep, wake := tr.hold()
	defer wake()
	eventually(t, asleep, "the loop asleep")
	is(t, "close", first.Close(), nil)
	second.serve(t, addr)
	const calls = 500
	errs := make(chan error, calls)
	for range calls {
		err = c.Start(typeEcho, []byte("x"), func(_ []byte, err error) { errs <- err })
		is(t, "start", err, nil)
	}
	wake()
	all(t, errs, calls, nil)
}
