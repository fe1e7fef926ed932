package erpc_test

import (
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestArrivedLarge: requests that have arrived and whose handlers block keep no further session
// from being opened, however many bytes they have: a small call finds a slot.
func TestArrivedLarge(t *testing.T) {
	g, c := pair(t, erpc.Config{})
	var held sync.WaitGroup
	for i := range 400 {
		held.Go(func() {
			req := pattern(i, 32<<10)
			resp, err := c.Call(bg, typeHold, req)
			if err != nil || len(resp) != len(req) {
				t.Errorf("a call that blocks: %d bytes, %v; want %d", len(resp), err, len(req))
			}
		})
	}
	for range 400 {
		eventually(t, g.started, "a handler")
	}
	echoed := make(chan error, 1)
	go func() {
		_, err := c.Call(bg, typeEcho, []byte("small"))
		echoed <- err
	}()
	is(t, "a call beside", eventually(t, echoed, "a call beside"), nil)
	close(g.release)
	held.Wait()
}

// TestCallsAhead: a call that a callback of the loop starts is ahead of those that wait for a slot,
// also when Config.MaxQueue of them do.
func TestCallsAhead(t *testing.T) {
	g, c := pair(t, erpc.Config{Slots: 1, MaxSessions: 1, MaxQueue: 10})
	type end struct {
		ahead bool
		err   error
	}
	ends := make(chan end, 100)
	waits := func([]byte, error) { ends <- end{} }
	full := make(chan error, 10)
	is(t, "the first call", c.Start(typeHold, nil, func(_ []byte, err error) {
		for range 2 { // one more than have ended
			if err == nil {
				err = c.StartInLoop(typeEcho, nil, func(_ []byte, err error) { ends <- end{true, err} })
			}
		}
		if err != nil {
			ends <- end{true, err}
		}
	}), nil)
	eventually(t, g.started, "the handler")
	for range 9 {
		is(t, "a call that waits", c.Start(typeEchoInline, nil, waits), nil)
	}
	is(t, "a call too many", c.Start(typeEcho, nil, func(_ []byte, err error) { full <- err }), nil)
	is(t, "its end", eventually(t, full, "its end"), erpc.ErrExhausted, erpc.ErrNotRun)
	close(g.release)
	for range 2 {
		if got := eventually(t, ends, "the first ends"); !got.ahead || got.err != nil {
			t.Errorf("the calls of the callback were not the first: %+v", got)
		}
	}
	for range 9 {
		eventually(t, ends, "an end")
	}
}
