package faulty

import (
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// Wait implements [transport.Transport]. It also returns when a held packet is
// due, so that nothing is held much longer than it should be.
func (t *Transport) Wait(timeout time.Duration) error {
	if !t.holds() {
		return t.inner.Wait(timeout)
	}
	if t.closed.Load() {
		return transport.ErrClosed
	}
	now := t.clock()
	t.releaseInWait(now)
	if t.rx.store.due(t.rx.counts.Packets, now) >= 0 {
		return nil
	}
	for _, s := range []*store{&t.tx.store, &t.rx.store} {
		if len(s.queue) > 0 {
			if left := max(0, s.nextAt().Sub(now)); timeout < 0 || left < timeout {
				timeout = left
			}
		}
	}
	err := t.inner.Wait(timeout)
	t.releaseInWait(t.clock())
	return err
}

// holds reports whether packets are held, of either direction.
func (t *Transport) holds() bool { return len(t.tx.store.queue) > 0 || len(t.rx.store.queue) > 0 }

// mayHold reports whether packets of either direction can be held.
func (t *Transport) mayHold() bool { return len(t.tx.store.slots)+len(t.rx.store.slots) > 0 }

// Nap implements [transport.Transport]. With held packets it is Wait.
func (t *Transport) Nap(timeout time.Duration) error {
	if t.holds() {
		return t.Wait(timeout)
	}
	return t.inner.Nap(timeout)
}

// WaitFDs returns nil, so that Wait is the only way to sleep, if packets may be held: no descriptor
// says when they are due.
func (t *Transport) WaitFDs() []int {
	if t.mayHold() {
		return nil
	}
	return t.inner.WaitFDs()
}

// PrepareWait goes with WaitFDs.
func (t *Transport) PrepareWait() (idle bool, err error) {
	if t.mayHold() {
		return false, transport.ErrUnsupported
	}
	return t.inner.PrepareWait()
}

// FinishWait goes with WaitFDs.
func (t *Transport) FinishWait(ready uint32) error {
	if t.mayHold() {
		return transport.ErrUnsupported
	}
	return t.inner.FinishWait(ready)
}

// Hints returns those of the inner transport that come through: a message of the network arrives
// as packets do, and a cut swallows it.
func (t *Transport) Hints(hints []transport.Hint) int {
	n := t.inner.Hints(hints)
	if !t.anyCut() {
		return n
	}
	kept := 0
	for i := range n {
		if !t.isCut(hints[i].To, RX) {
			hints[kept] = hints[i]
			kept++
		}
	}
	return kept
}

func (t *Transport) releaseInWait(now Time) {
	t.closing.Lock()
	defer t.closing.Unlock()
	if !t.closed.Load() {
		t.releaseTX(now)
	}
}
