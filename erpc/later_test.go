package erpc_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestStart: calls that nobody waits for end once each, with answers that handlers gave after they
// had returned. A call begins in the callback of another one.
func TestStart(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	const typeLater, n = 50, 100
	waiting := make(chan erpc.ReqHandle, 2*n)
	is(t, "register", g.HandleLater(typeLater, func(h erpc.ReqHandle) { waiting <- h }), nil)
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	ended := make(chan error, 2*n)
	for i := range n {
		want := fmt.Sprint("request ", i)
		err := c.Start(typeLater, []byte(want), func(resp []byte, err error) {
			if err == nil && string(resp) != want {
				err = fmt.Errorf("got %q, want %q", resp, want)
			}
			ended <- err
			if err = c.StartInLoop(typeFail, nil, func(_ []byte, err error) {
				if !errors.Is(err, erpc.ErrRemote) {
					ended <- fmt.Errorf("the second call: %v", err)
					return
				}
				ended <- nil
			}); err != nil {
				ended <- err
			}
		})
		is(t, "start", err, nil)
	}
	for range n {
		h := eventually(t, waiting, "a request")
		is(t, "respond", h.RespondBytes(h.Data()), nil)
	}
	for range 2 * n {
		is(t, "a call", eventually(t, ended, "a call"), nil)
	}
}

// TestStartClosed: calls under way end with ErrClosed; later ones do not begin.
func TestStartClosed(t *testing.T) {
	_, c := pair(t, erpc.Config{})
	ended := make(chan error, 1)
	is(t, "start", c.Start(typeHold, nil, func(_ []byte, err error) { ended <- err }), nil)
	is(t, "close", c.Close(), nil)
	is(t, "the call", eventually(t, ended, "the call"), erpc.ErrClosed)
	err := c.Start(typeHold, nil, func([]byte, error) { t.Error("it was called") })
	is(t, "a call after Close", err, erpc.ErrClosed, erpc.ErrNotRun)
}
