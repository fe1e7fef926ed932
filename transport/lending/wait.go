package lending

import (
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// stallHold is after what time packets are offered again that the inner transport did
// not take.
const stallHold = 100 * time.Microsecond

// Wait implements [transport.Transport]. Without Config.After it sends all packets first.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.sendAll() {
		return t.inner.Wait(timeout)
	}
	if timeout < 0 || timeout > stallHold {
		timeout = stallHold
	}
	err := t.inner.Wait(timeout)
	t.sendAll()
	return err
}

// sendAll sends all packets, unless they leave by themselves. It returns false if the
// inner transport takes no more now.
func (t *Transport) sendAll() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cfg.After != nil {
		return true
	}
	t.send(t.queue.n, false)
	return t.queue.n == 0
}

// WaitFDs makes the decorator a transport.Waiter if what it decorates is one.
func (t *Transport) WaitFDs() []int {
	if w, ok := t.inner.(transport.Waiter); ok {
		return w.WaitFDs()
	}
	return nil
}

// PrepareWait begins a wait, see transport.Waiter. Without Config.After it sends all
// packets first.
func (t *Transport) PrepareWait() (idle bool, err error) {
	w, ok := t.inner.(transport.Waiter)
	if !ok {
		return false, transport.ErrUnsupported
	}
	sent := t.sendAll()
	idle, err = w.PrepareWait()
	return idle && sent, err
}

// FinishWait ends a wait, see transport.Waiter.
func (t *Transport) FinishWait(ready uint32) error {
	w, ok := t.inner.(transport.Waiter)
	if !ok {
		return transport.ErrUnsupported
	}
	return w.FinishWait(ready)
}
