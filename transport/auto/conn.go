package auto

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// Config describes an endpoint. The zero Config is a good one.
type Config struct {
	UDP udp.Config
	SHM shm.Config
	// NoSharedMemory makes it a UDP socket only.
	NoSharedMemory bool
}

// Reasons why an endpoint is without shared memory, beside the errors of package shm.
var (
	// ErrTurnedOff means Config.NoSharedMemory.
	ErrTurnedOff = errors.New("auto: shared memory is off: Config.NoSharedMemory is set")
	// ErrShared means udp.Config.ReusePort, which spreads peers over several sockets.
	ErrShared = errors.New("auto: shared memory is off: with UDP.ReusePort several sockets share " +
		"an address, and a name in shared memory leads to one")
	// ErrPortable means that the socket is the portable one, because of udp.Config.Portable
	// or of the system.
	ErrPortable = errors.New("auto: shared memory is off: a portable UDP socket (UDP.Portable) " +
		"cannot be waited for together with it")
)

// Conn is a UDP socket with an endpoint of shared memory beside it, as a
// transport.Transport.
type Conn struct {
	transport.Base
	udp  *udp.Conn
	shm  *shm.Conn // nil: UDP only
	why  error     // why shm is nil
	caps transport.Caps
	ns   uint64 // network namespace of the socket

	hosts hosts

	// Touched by the using goroutine alone.
	turns turns
	sleep sleeper
}

var _ transport.Transport = (*Conn)(nil)

// Listen opens a UDP socket on addr, see udp.Listen, and an endpoint of shared memory that
// Resolve of others on this machine finds by the address of the socket. Without the latter
// it works too, see SharedMemory. Errors are those of udp.Listen, or a
// *shm.ConfigError. The caller must Close the Conn.
func Listen(addr string, cfg Config) (*Conn, error) {
	u, err := udp.Listen(addr, cfg.UDP)
	if err != nil {
		return nil, err
	}
	c := &Conn{udp: u}
	c.why = c.share(cfg)
	var bad *shm.ConfigError
	if errors.As(c.why, &bad) {
		return nil, errors.Join(c.why, u.Close())
	}
	c.caps = u.Caps()
	c.caps.Name = "auto"
	if c.shm != nil {
		c.caps = join(c.caps, c.shm.Caps())
	}
	return c, nil
}

// share opens the endpoint of shared memory.
func (c *Conn) share(cfg Config) (err error) {
	switch {
	case cfg.NoSharedMemory:
		return ErrTurnedOff
	case cfg.UDP.ReusePort:
		return ErrShared
	}
	if c.ns, err = networkNamespace(); err != nil {
		return err
	}
	fds := c.udp.WaitFDs()
	if fds == nil {
		return ErrPortable
	}
	local := c.udp.LocalAddr()
	s, err := shm.Listen(nameOf(c.ns, local.AddrPort(), local.Scope), cfg.SHM)
	if err != nil {
		return err
	}
	c.shm = s
	c.sleep.init(fds, s.WaitFDs())
	return nil
}

// join returns what the endpoint can do over both ways; a is that of UDP. ECN and LinkRate are
// a's: shared memory has no link, and no queues that could mark packets. So are TxBatch and
// TxCostly, since a system call costs more than a write to a ring.
func join(a, b transport.Caps) transport.Caps {
	a.MTU = max(a.MTU, b.MTU) // Path has the limit of each destination
	a.RxRing = min(a.RxRing, b.RxRing)
	a.TxCopies = a.TxCopies && b.TxCopies
	return a
}

// SharedMemory reports whether peers on this machine can be reached over shared memory,
// and if not, why. Safe from any goroutine.
func (c *Conn) SharedMemory() (on bool, why error) { return c.shm != nil, c.why }

// Caps returns what the endpoint can do over both ways, see package doc.
func (c *Conn) Caps() transport.Caps { return c.caps }

// LocalAddr returns the address of the UDP socket.
func (c *Conn) LocalAddr() transport.Addr { return c.udp.LocalAddr() }

// Path describes the way that dst belongs to, and nothing of the other one. The zero Addr is one
// of UDP.
func (c *Conn) Path(dst transport.Addr) transport.Path {
	if c.shm != nil && shm.IsAddr(&dst) {
		return c.shm.Path(dst)
	}
	return c.udp.Path(dst)
}

// IsPrivate returns Path(from).Private.
func (c *Conn) IsPrivate(from transport.Addr) bool {
	return c.shm != nil && shm.IsAddr(&from) && c.shm.IsPrivate(from)
}

// Flush does nothing: both ways have copied every packet when TxBurst returns.
func (c *Conn) Flush() {}

// Waited is that of UDP, see transport.Transport and package udp. It is 0 if packets came over
// shared memory too.
func (c *Conn) Waited() time.Duration {
	if c.turns.shared {
		return 0
	}
	return c.udp.Waited()
}

// Hints returns those of both ways, see transport.Transport and the two packages.
func (c *Conn) Hints(hints []transport.Hint) int {
	n := c.udp.Hints(hints)
	if c.shm != nil {
		n += c.shm.Hints(hints[n:])
	}
	return n
}

// Renew is that of UDP, see transport.Transport and package udp.
func (c *Conn) Renew(dst transport.Addr) error {
	if shm.IsAddr(&dst) {
		return transport.ErrUnsupported
	}
	return c.udp.Renew(dst)
}

// Nap is Wait, but packets of neither way end it, see transport.Transport.
func (c *Conn) Nap(timeout time.Duration) error {
	c.turns.busy = false // the next RxBurst looks at both
	return c.udp.Nap(timeout)
}

// Wake makes the current or the next Wait return.
func (c *Conn) Wake() { c.udp.Wake() }

// Stats returns the sums of both ways since the start.
func (c *Conn) Stats() transport.Stats {
	u, s := c.StatsOf()
	u.TxPackets += s.TxPackets
	u.TxBytes += s.TxBytes
	u.TxDropped += s.TxDropped
	u.TxStalls += s.TxStalls
	u.TxCalls += s.TxCalls
	u.RxPackets += s.RxPackets
	u.RxBytes += s.RxBytes
	u.RxDropped += s.RxDropped
	u.RxCalls += s.RxCalls
	return u
}

// StatsOf returns the counters of each way. Only for the using goroutine.
func (c *Conn) StatsOf() (udp, shm transport.Stats) {
	udp = c.udp.Stats()
	if c.shm != nil {
		shm = c.shm.Stats()
	}
	return udp, shm
}

// Close frees both, see transport.Transport. The name in shared memory goes first:
// the next owner of the address then gets the name too.
func (c *Conn) Close() (err error) {
	if c.shm != nil {
		err = c.shm.Close()
	}
	return errors.Join(err, c.udp.Close())
}

// String describes the endpoint.
func (c *Conn) String() string {
	if c.shm == nil {
		return fmt.Sprintf("auto %v", c.LocalAddr())
	}
	return fmt.Sprintf("auto %v, %v", c.LocalAddr(), c.shm)
}
