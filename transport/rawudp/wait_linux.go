package rawudp

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Indexes of what the Conn polls, and bits of FinishWait's argument.
const (
	pollDevice = iota
	pollWake
	pollNetwork
	pollErrors // of a Heedful device
)

// initWait makes the Conn's sleeper, which polls the device, Wake's eventfd, the network, and what
// the network says of packets.
func (c *Conn) initWait() error {
	s := &c.sleeper
	if err := s.Init("rawudp", &c.closed); err != nil {
		return err
	}
	s.Watch(c.dev.FD(), s.WakeFD(), c.net.FD())
	if c.errors.fd >= 0 {
		s.Watch(c.errors.fd)
	}
	return nil
}

// Wait blocks until there is something to do, see transport.Transport. It also returns when
// the link changes. While received packets are held it may return early.
func (c *Conn) Wait(timeout time.Duration) error { return c.sleeper.Wait(c, c.clip(timeout)) }

// clip shortens timeout to what is left of the link's grace.
func (c *Conn) clip(timeout time.Duration) time.Duration {
	if !c.link.sick || c.cfg.LinkGrace < 0 {
		return timeout
	}
	left := c.cfg.LinkGrace - monotime.Now().Sub(c.link.since)
	if left <= 0 || timeout >= 0 && timeout < left {
		return timeout
	}
	return left
}

// WaitFDs returns what to poll, see transport.Transport.
func (c *Conn) WaitFDs() []int { return c.sleeper.FDs() }

// PrepareWait begins a wait, see transport.Transport. The device's descriptor may be silent until
// Device.Pending has returned false, so that call comes last. Packets that were taken from the
// device and are held make nothing readable.
func (c *Conn) PrepareWait() (idle bool, err error) {
	if idle, err = c.sleeper.Prepare(); !idle {
		return false, err
	}
	if c.rx.pending() || c.dev.Pending() {
		c.sleeper.Cancel()
		return false, nil
	}
	return true, nil
}

// FinishWait ends a wait, see transport.Transport.
func (c *Conn) FinishWait(ready uint32) error {
	s := &c.sleeper
	defer s.Unlock()
	if err := s.Finish(ready&(1<<pollWake) != 0); err != nil {
		return err
	}
	if ready&(1<<pollErrors) != 0 {
		c.errors.read()
	}
	if ready&(1<<pollNetwork) != 0 || ready&(1<<pollDevice) != 0 && !c.dev.Pending() {
		c.tend() // an error makes the device's descriptor readable, too
	}
	return nil
}

// Wake makes the current or the next Wait return.
func (c *Conn) Wake() { c.sleeper.Wake() }
