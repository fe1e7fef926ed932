package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// TestDecorator: a decorator that embeds what it decorates passes; one that was written before the
// contract grew, and answers by Base, is told of each method that it hides.
func TestDecorator(t *testing.T) {
	Decorator(t, func(inner transport.Transport) transport.Transport {
		return struct{ transport.Transport }{inner}
	})
	got := record(t, func(tb testing.TB) {
		testDecorator(tb, func(inner transport.Transport) transport.Transport {
			return hiding{inner: inner}
		})
	})
	for _, name := range []string{"Hints", "Nap", "IsPrivate", "WaitFDs", "PrepareWait", "FinishWait",
		"Register", "Unregister"} {
		if !strings.Contains(got.text(), name+" gives") {
			t.Errorf("that %s is hidden nobody noticed; it says:\n%s", name, got.text())
		}
	}
	if strings.Contains(got.text(), "Path gives") || strings.Contains(got.text(), "Close") {
		t.Errorf("it says:\n%s", got.text())
	}
	got = record(t, func(tb testing.TB) {
		testDecorator(tb, func(inner transport.Transport) transport.Transport {
			return posing{inner}
		})
	})
	if !strings.Contains(got.text(), "Kind of the decorator") {
		t.Errorf("that a decorator passes for what it decorates nobody noticed; it says:\n%s",
			got.text())
	}
}

// posing gives the kind of what it decorates as its own.
type posing struct{ transport.Transport }

func (p posing) Kind(transport.Transport) any { return p.Transport.Kind(p.Transport) }

// hiding passes on what its author knew of; Base has the rest.
type hiding struct {
	transport.Base
	inner transport.Transport
}

func (h hiding) Caps() transport.Caps                        { return h.inner.Caps() }
func (h hiding) LocalAddr() transport.Addr                   { return h.inner.LocalAddr() }
func (h hiding) Resolve(text string) (transport.Addr, error) { return h.inner.Resolve(text) }
func (h hiding) Path(dst transport.Addr) transport.Path      { return h.inner.Path(dst) }
func (h hiding) TxBurst(i []transport.TxItem) (int, error)   { return h.inner.TxBurst(i) }
func (h hiding) RxBurst(p []transport.RxPacket) (int, error) { return h.inner.RxBurst(p) }
func (h hiding) Flush()                                      { h.inner.Flush() }
func (h hiding) Wait(timeout time.Duration) error            { return h.inner.Wait(timeout) }
func (h hiding) Wake()                                       { h.inner.Wake() }
func (h hiding) Stats() transport.Stats                      { return h.inner.Stats() }
func (h hiding) Close() error                                { return h.inner.Close() }
