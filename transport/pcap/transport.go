package pcap

import (
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// Transport is a transport whose packets are captured. The rules of
// [transport.Transport] hold for it.
type Transport struct {
	inner   transport.Transport
	capture *Capture
	own     place
	mtu     int
}

var _ transport.Transport = (*Transport)(nil)

// Wrap decorates inner, which belongs to the result from then on. The capture goes on when
// the result is closed, and the result when the capture ends.
func (c *Capture) Wrap(inner transport.Transport) *Transport {
	local := inner.LocalAddr()
	return &Transport{inner: inner, capture: c, own: placeOf(&local), mtu: inner.Caps().MTU}
}

// TxBurst implements [transport.Transport]. The packets are read again after the inner
// transport took them, which is allowed until TxBurst returns.
func (t *Transport) TxBurst(items []transport.TxItem) (int, error) {
	if t.capture.ended.Load() || len(items) == 0 {
		return t.inner.TxBurst(items)
	}
	at := t.capture.now()
	n, err := t.inner.TxBurst(items)
	if n > 0 {
		t.capture.sent(t, at, items[:n])
	}
	return n, err
}

// RxBurst implements [transport.Transport].
func (t *Transport) RxBurst(pkts []transport.RxPacket) (int, error) {
	n, err := t.inner.RxBurst(pkts)
	if n > 0 && !t.capture.ended.Load() {
		t.capture.received(t, t.capture.now(), pkts[:n])
	}
	return n, err
}

// Err returns the error that ended the capture, or nil.
func (t *Transport) Err() error { return t.capture.Err() }

// Caps implements [transport.Transport].
func (t *Transport) Caps() transport.Caps { return t.inner.Caps() }

// Path implements [transport.Transport].
func (t *Transport) Path(dst transport.Addr) transport.Path { return t.inner.Path(dst) }

// IsPrivate returns that of the inner transport.
func (t *Transport) IsPrivate(from transport.Addr) bool {
	return transport.IsPrivate(t.inner, from)
}

// LocalAddr implements [transport.Transport].
func (t *Transport) LocalAddr() transport.Addr { return t.inner.LocalAddr() }

// Resolve implements [transport.Transport].
func (t *Transport) Resolve(text string) (transport.Addr, error) { return t.inner.Resolve(text) }

// Flush implements [transport.Transport].
func (t *Transport) Flush() { t.inner.Flush() }

// Wait implements [transport.Transport].
func (t *Transport) Wait(timeout time.Duration) error { return t.inner.Wait(timeout) }

// Wake implements [transport.Transport].
func (t *Transport) Wake() { t.inner.Wake() }

// Stats implements [transport.Transport].
func (t *Transport) Stats() transport.Stats { return t.inner.Stats() }

// Close closes the inner transport, not the capture.
func (t *Transport) Close() error { return t.inner.Close() }
