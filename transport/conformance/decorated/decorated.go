package decorated

import (
	"io"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"github.com/userspace-rpc/erpc/transport/faulty"
	"github.com/userspace-rpc/erpc/transport/lending"
	"github.com/userspace-rpc/erpc/transport/pcap"
)

// Wrap puts a decorator around a transport.
type Wrap = func(tb testing.TB, t transport.Transport) transport.Transport

// All are the decorators by name.
var All = map[string]Wrap{"pcap": captured, "faulty": faultless, "lending": lent}

func captured(tb testing.TB, t transport.Transport) transport.Transport {
	tb.Helper()
	c, err := pcap.New(io.Discard, pcap.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c.Wrap(t)
}

func faultless(tb testing.TB, t transport.Transport) transport.Transport {
	tb.Helper()
	f, err := faulty.New(t, faulty.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// lent reports whoever changes a packet before its time.
func lent(tb testing.TB, t transport.Transport) transport.Transport {
	tb.Helper()
	l, err := lending.New(t, lending.Config{Report: func(v lending.Violation) { tb.Error(v) }})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// Run tests the transport that open makes as [conformance.Run] does, in each decorator; in short
// tests as RunStacked.
func Run(t *testing.T, open conformance.OpenFunc, opts ...conformance.Option) {
	if testing.Short() {
		RunStacked(t, open, opts...)
		return
	}
	for name, wrap := range All {
		t.Run("in "+name, func(t *testing.T) { run(t, open, opts, wrap) })
	}
}

// RunStacked tests it in all decorators, one around the other.
func RunStacked(t *testing.T, open conformance.OpenFunc, opts ...conformance.Option) {
	t.Run("decorated", func(t *testing.T) { run(t, open, opts, captured, faultless, lent) })
}

func run(t *testing.T, open conformance.OpenFunc, opts []conformance.Option, wraps ...Wrap) {
	conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
		a, b = open(tb)
		for _, wrap := range wraps {
			a, b = wrap(tb, a), wrap(tb, b)
		}
		return a, b
	}, opts...)
}
