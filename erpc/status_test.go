package erpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// typeSay is a Func that returns what its channel gives.
const typeSay = 21

// TestErrorTravels: a handler's error comes to the client with code, text and details.
func TestErrorTravels(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	say := make(chan error, 1)
	g.handle(t, typeSay, func(context.Context, []byte) ([]byte, error) { return nil, <-say })
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	plain := &erpc.Error{Code: erpc.CodeNotFound, Text: "no key", Details: []byte{1, 2}}
	for name, tc := range map[string]struct {
		say  error
		want erpc.Error
		is   error
	}{
		"plain": {plain,
			erpc.Error{Code: erpc.CodeNotFound, Text: "no key", Details: []byte{1, 2}},
			erpc.ErrRemote},
		"wrapped": {fmt.Errorf("get: %w", plain),
			erpc.Error{Code: erpc.CodeNotFound, Text: "get: no key", Details: []byte{1, 2}},
			erpc.ErrRemote},
		"no code": {&erpc.Error{Text: "x"},
			erpc.Error{Code: erpc.CodeUnknown, Text: "x"}, erpc.ErrRemote},
		"no text": {&erpc.Error{Code: erpc.CodeAborted},
			erpc.Error{Code: erpc.CodeAborted}, erpc.ErrRemote},
		"foreign": {errors.New("disk full"),
			erpc.Error{Code: erpc.CodeUnknown, Text: "disk full"}, erpc.ErrRemote},
		"deadline": {context.DeadlineExceeded,
			erpc.Error{Code: erpc.CodeDeadlineExceeded, Text: "context deadline exceeded"},
			erpc.ErrDeadline},
		"cancelled": {fmt.Errorf("get: %w", context.Canceled),
			erpc.Error{Code: erpc.CodeCancelled, Text: "get: context canceled"},
			context.Canceled},
		"passed on": {&erpc.Error{Code: erpc.CodeUnavailable, Text: "down",
			Reason: erpc.ReasonShutdown, NotRun: true},
			erpc.Error{Code: erpc.CodeUnavailable, Text: "down"}, erpc.ErrRemote},
		"exhausted": {erpc.ErrExhausted,
			erpc.Error{Code: erpc.CodeResourceExhausted, Text: "resource exhausted"},
			erpc.ErrExhausted},
		"too large": {erpc.ErrTooLarge,
			erpc.Error{Code: erpc.CodeResourceExhausted, Text: "message too large"},
			erpc.ErrTooLarge},
	} {
		say <- tc.say
		_, err := c.Call(bg, typeSay, nil)
		var e *erpc.Error
		if !errors.As(err, &e) || !errors.Is(err, tc.is) || errors.Is(err, erpc.ErrNotRun) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e.Code != tc.want.Code || e.Text != tc.want.Text || e.NotRun ||
			!bytes.Equal(e.Details, tc.want.Details) {
			t.Errorf("%s: %+v, want %+v", name, e, tc.want)
		}
		if erpc.CodeOf(fmt.Errorf("call: %w", err)) != tc.want.Code || e.Error() == "" {
			t.Errorf("%s: code %v, %q", name, erpc.CodeOf(err), e.Error())
		}
	}
	say <- &erpc.Error{Code: erpc.CodeInternal,
		Text: strings.Repeat("x", 9000), Details: make([]byte, 9000)}
	_, err := c.Call(bg, typeSay, nil)
	var e *erpc.Error
	if !errors.As(err, &e) || len(e.Text) != erpc.MaxErrorText ||
		len(e.Details) > erpc.MaxErrorDetails {
		t.Errorf("long text and details: %v", err)
	}
}

// TestNotRun: errors say whether the handler certainly did not run.
func TestNotRun(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{MaxSessions: 1, Shares: erpc.Shares{Off: true}})
	addr := g.serve(t, "127.0.0.1:0")
	c := dial(t, addr, erpc.Config{MaxQueue: 12})
	ended, cancel := context.WithCancel(bg)
	cancel()
	_, late := c.Call(ended, typeEcho, nil)
	is(t, "ended before", late, erpc.ErrNotRun, erpc.ErrCancelled, context.Canceled)
	_, err := c.Call(bg, typeNobody, nil)
	is(t, "no handler", err, erpc.ErrNotRun, erpc.ErrNoHandler)
	_, err = c.Call(bg, 255, nil)
	is(t, "no type", err, erpc.ErrNotRun, erpc.ErrReqType)
	_, err = erpc.Dial(bg, listen(t, "127.0.0.1:0"), addr, erpc.Config{})
	is(t, "refused", err, erpc.ErrNotRun, erpc.ErrRefused)
	for _, typ := range []uint8{typeFail, typePanic} {
		if _, err = c.Call(bg, typ, nil); err == nil || errors.Is(err, erpc.ErrNotRun) {
			t.Errorf("a handler that ran: %v", err)
		}
	}

	running, stop := context.WithCancel(bg)
	first := make(chan error, 8)
	for range 8 {
		go func() {
			_, err := c.Call(running, typeHold, nil)
			first <- err
		}()
		eventually(t, g.started, "a handler")
	}
	short, cancel := context.WithTimeout(bg, 5*time.Millisecond)
	_, err = c.Call(short, typeEcho, nil)
	cancel()
	is(t, "expired in the queue", err, erpc.ErrNotRun, erpc.ErrDeadline, context.DeadlineExceeded)
	queued := make(chan error, 5)
	for range 5 {
		go func() {
			_, err := c.Call(bg, typeHold, nil)
			queued <- err
		}()
	}
	is(t, "beyond MaxQueue", eventually(t, queued, "a call"), erpc.ErrNotRun, erpc.ErrExhausted)
	stop()
	for range 8 {
		err := eventually(t, first, "a call")
		is(t, "cancelled at work", err, erpc.ErrCancelled)
		if errors.Is(err, erpc.ErrNotRun) {
			t.Errorf("cancelled at work: %v", err)
		}
	}
	is(t, "close", c.Close(), nil)
	for range 4 {
		is(t, "closed", eventually(t, queued, "a call"), erpc.ErrClosed)
	}
	_, err = c.Call(bg, typeEcho, nil)
	is(t, "after Close", err, erpc.ErrNotRun, erpc.ErrClosed)
}

// TestPeerCloses: a session that the server ends is another error than one that this side ends.
func TestPeerCloses(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	res := p.enqueue(tHold, 1, 0)
	p.until(func() bool { return len(p.held) == 1 })
	is(t, "close", p.server.CloseSession(p.held[0].Session()), nil)
	p.until(func() bool { return res.ends > 0 })
	is(t, "the call", res.err, erpc.ErrPeerClosed)
	if errors.Is(res.err, erpc.ErrClosed) || errors.Is(res.err, erpc.ErrNotRun) {
		t.Errorf("the call: %v", res.err)
	}
	p.close()
}

// TestNamedNotRun: the named errors that say so match, and the others do not.
func TestNamedNotRun(t *testing.T) {
	for _, err := range []error{
		erpc.ErrResolve, erpc.ErrRefused, erpc.ErrConnect, erpc.ErrVersion, erpc.ErrDraining,
		fmt.Errorf("call: %w", erpc.ErrRefused), &erpc.Error{NotRun: true},
	} {
		if !errors.Is(err, erpc.ErrNotRun) {
			t.Errorf("%v does not match", err)
		}
	}
	for _, err := range []error{
		erpc.ErrPeerLost, erpc.ErrPeerRestarted, erpc.ErrPeerClosed, erpc.ErrOutOfStep,
		erpc.ErrDeadline, erpc.ErrCancelled, erpc.ErrClosed, erpc.ErrTooLarge, &erpc.Error{},
	} {
		if errors.Is(err, erpc.ErrNotRun) {
			t.Errorf("%v matches", err)
		}
	}
}

// TestCodeOf: each error has the code that gRPC gives it.
func TestCodeOf(t *testing.T) {
	for err, want := range map[error]erpc.Code{
		nil: erpc.CodeOK, errors.New("x"): erpc.CodeUnknown, context.Canceled: erpc.CodeCancelled,
		erpc.ErrClosed: erpc.CodeCancelled, erpc.ErrDeadline: erpc.CodeDeadlineExceeded,
		erpc.ErrPeerLost: erpc.CodeUnavailable, erpc.ErrRefused: erpc.CodeUnavailable,
		erpc.ErrExhausted: erpc.CodeResourceExhausted, erpc.ErrReqType: erpc.CodeInvalidArgument,
		&erpc.Error{Code: 77}: erpc.CodeUnknown, &erpc.Error{Code: 16}: erpc.CodeUnauthenticated,
	} {
		if err != nil {
			err = fmt.Errorf("wrapped: %w", err)
		}
		if got := erpc.CodeOf(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
