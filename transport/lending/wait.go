package lending

import "time"

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

// Nap implements [transport.Transport]. Without Config.After it sends all packets first; while the
// inner transport does not take them, it is Wait.
func (t *Transport) Nap(timeout time.Duration) error {
	if t.sendAll() {
		return t.inner.Nap(timeout)
	}
	return t.Wait(timeout)
}

// PrepareWait begins a wait, see [transport.Transport]. Without Config.After it sends all
// packets first.
func (t *Transport) PrepareWait() (idle bool, err error) {
	sent := t.sendAll()
	idle, err = t.inner.PrepareWait()
	return idle && sent, err
}
