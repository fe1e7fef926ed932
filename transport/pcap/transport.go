package pcap

import "github.com/userspace-rpc/erpc/transport"

// Transport is a transport whose packets are captured. The rules of
// [transport.Transport] hold for it. All but TxBurst and RxBurst is the inner transport's; Close
// closes that and not the capture.
type Transport struct {
	inner
	capture *Capture
	own     place
	mtu     int
}

// inner names the embedded field, the decorated transport, and keeps it unexported.
type inner = transport.Transport

var _ transport.Transport = (*Transport)(nil)

// Wrap decorates a transport, which belongs to the result from then on. The capture goes on when
// the result is closed, and the result when the capture ends.
func (c *Capture) Wrap(t transport.Transport) *Transport {
	local := t.LocalAddr()
	return &Transport{inner: t, capture: c, own: placeOf(&local), mtu: t.Caps().MTU}
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
