package erpc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// TestOwnError: each error of the packages below has the library's name, alone or as a cause.
func TestOwnError(t *testing.T) {
	for _, c := range []struct{ below, own error }{
		{session.ErrRefused, ErrRefused},
		{session.ErrPeerLost, session.ErrPeerLost},
		{session.ErrTooLarge, ErrTooLarge},
		{session.ErrExhausted, ErrExhausted},
		{session.ErrClosed, ErrClosed},
		{session.ErrTimeout, ErrConnect},
		{session.ErrVersion, ErrVersion},
		{session.ErrNotHandling, ErrResponded},
		{msgbuf.ErrTooLarge, ErrTooLarge},
		{msgbuf.ErrClosed, ErrClosed},
		{msgbuf.ErrInUse, ErrBufferInUse},
		{msgbuf.ErrFreed, ErrBufferFreed},
		{nil, nil},
		{errors.ErrUnsupported, errors.ErrUnsupported}, // of nobody here
	} {
		if got := engine.OwnError(c.below); got != c.own {
			t.Errorf("%v: got %v, want %v", c.below, got, c.own)
		}
		if c.below == nil {
			continue
		}
		cause := fmt.Errorf("the text stays: %w", c.below)
		got := engine.OwnError(cause)
		if !errors.Is(got, c.own) || !errors.Is(got, c.below) || got.Error() != cause.Error() {
			t.Errorf("%v as a cause: got %v", c.below, got)
		}
		if again := engine.OwnError(got); again.Error() != got.Error() || !errors.Is(again, c.own) {
			t.Errorf("%v named twice: %v", c.below, again)
		}
	}
	both := errors.Join(session.ErrRefused, session.ErrExhausted)
	if got := engine.OwnError(both); !errors.Is(got, ErrRefused) || !errors.Is(got, ErrExhausted) {
		t.Errorf("two causes: %v", got)
	}
}

// TestOwnErrorsNamesAll: no error of a session is left without a name of the library, but those
// that the engine never passes on.
func TestOwnErrorsNamesAll(t *testing.T) {
	kept := map[error]string{
		session.ErrPeerLost:      "the engine ends sessions with its own",
		session.ErrPeerRestarted: "the engine ends sessions with its own",
		session.ErrBadOffer:      "comes joined with ErrRefused",
		session.ErrTiming:        "a ConfigError has its text",
	}
	for _, err := range []error{
		session.ErrRefused, session.ErrPeerLost, session.ErrPeerRestarted, session.ErrClosed,
		session.ErrTooLarge, session.ErrExhausted, session.ErrTimeout, session.ErrBadOffer,
		session.ErrVersion,
		session.ErrNotHandling, session.ErrTiming,
	} {
		if engine.OwnError(err) == err && kept[err] == "" {
			t.Errorf("%v has no name in the library", err)
		}
	}
}

// TestReasons: reasons are equal on the wire and here, and have texts of their own.
func TestReasons(t *testing.T) {
	texts := map[string]Reason{}
	for _, c := range []struct {
		own   Reason
		below wire.Code
	}{
		{ReasonNone, wire.CodeOK}, {ReasonNoHandler, wire.CodeNoHandler},
		{ReasonTooLarge, wire.CodeTooLarge}, {ReasonExhausted, wire.CodeExhausted},
		{ReasonShutdown, wire.CodeShutdown},
		{ReasonApplication, wire.CodeApplication}, {ReasonBadOffer, wire.CodeBadOffer},
		{ReasonPanic, wire.CodePanic},
	} {
		if uint8(c.own) != uint8(c.below) || c.own.wire() != c.below ||
			c.own.String() != c.below.String() {
			t.Errorf("code %d (%v) is %d (%v) on the wire", c.own, c.own, c.below, c.below)
		}
		if other, ok := texts[c.own.String()]; ok {
			t.Errorf("codes %d and %d are both %q", other, c.own, c.own)
		}
		texts[c.own.String()] = c.own
	}
	if s := (ReasonNoKeys + 1).String(); s != "unknown code" {
		t.Errorf("a code that nobody knows is %q", s)
	}
}
