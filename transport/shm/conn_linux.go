package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
)

// maxBurst is the most packets that one RxBurst returns. Private memory is set aside for
// so many small ones.
const maxBurst = 256

// Conn is an endpoint in shared memory, as a transport.Transport.
type Conn struct {
	transport.Base
	local  transport.Addr
	caps   transport.Caps
	path   transport.Path // to a destination without a connection
	closed atomic.Bool
	news   atomic.Bool // hub.events is not empty; set by the hub, cleared by the user

	// Touched by the using goroutine alone.
	rx    receiver
	tx    transmitter
	peers table

	waiter waiter
	hub    hub

	gone []transport.Addr // of peers that have ended, for Hints; the using goroutine's
}

var _ transport.Transport = (*Conn)(nil)

// peer is a connection as the using goroutine sees it.
type peer struct {
	addr transport.Addr
	open bool // tx and rx work
	dead bool // the other side is gone, or broke the rules
	left bool // it is gone
	tx   shmem.Producer
	rx   shmem.Consumer
	bell shmem.Listener
	fd   int // the socket; -1 for the endpoint itself

	at       int           // place in receiver.rings
	quiet    int           // polls in a row that found nothing
	until    uint64        // of a dead peer: where reading ends
	waits    monotime.Time // since when nothing could be put; 0: it could
	progress uint64        // tx.Progress() then
	stuck    bool          // and that was long ago

	pair, bellMem []byte // mappings
	token         int32  // in the hub
}

// Listen makes an endpoint that others find as "shm:"+name. A name is 1 to 64 letters,
// digits, '.', '_' and '-'; "" means that only the address leads here. The name may
// begin with "shm:". Errors match transport.ErrBadAddress, transport.ErrUnsupported,
// ErrNameInUse or ErrDirectory, are a *ConfigError, or are those of the system. The
// caller must Close the Conn.
func Listen(name string, cfg Config) (*Conn, error) {
	if name != "" && name != "shm:" {
		t, err := parse(name)
		if err != nil {
			return nil, err
		}
		if t.name == "" || t.said {
			return nil, badAddress(name, "an address cannot be chosen, nor a user")
		}
		name = t.name
	} else {
		name = ""
	}
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	c := &Conn{local: newAddr()}
	c.caps = transport.Caps{
		Name: "shm", MTU: cfg.MTU, RxRing: rxRing(cfg.Ring, cfg.MTU),
		TxCopies: true, TxBatch: txBatch,
	}
	c.path = transport.Path{
		MTU: cfg.MTU, HostDelay: hostDelay,
		Shared: true, Alone: true, Checksummed: true, Private: !cfg.AllowOtherUsers,
		Local: true,
	}
	c.rx.init()
	c.tx.patience = stuckAfter
	if err := c.start(name, cfg); err != nil {
		return nil, err
	}
	// Sending to itself needs no connection.
	tx, rx := shmem.Loopback(cfg.MTU)
	self := &peer{addr: c.local, open: true, tx: *tx, rx: *rx, fd: -1}
	self.bell = shmem.NewListener(c.waiter.bellMem)
	c.peers.put(self)
	c.rx.add(self)
	return c, nil
}

// start opens what the system has to give, and starts the goroutines.
func (c *Conn) start(name string, cfg Config) error {
	if err := c.waiter.init(&c.closed); err != nil {
		return err
	}
	if err := c.hub.init(c, name, cfg); err != nil {
		c.waiter.free()
		return err
	}
	return nil
}

// Caps returns what the transport can do.
func (c *Conn) Caps() transport.Caps { return c.caps }

// LocalAddr returns the address of the endpoint. Resolve takes its text too.
func (c *Conn) LocalAddr() transport.Addr { return c.local }

// Resolve finds the endpoint of a name, "shm:NAME" or "NAME", of another user by "NAME@UID", or of
// the text of an address, and connects to it. It blocks until the other endpoint has answered, at
// most some seconds. Errors match transport.ErrBadAddress, ErrNoEndpoint, ErrRefused,
// ErrHandshake or ErrLimit, or are those of the system.
func (c *Conn) Resolve(text string) (transport.Addr, error) {
	if c.closed.Load() {
		return transport.Addr{}, transport.ErrClosed
	}
	t, err := parse(text)
	if err != nil {
		return transport.Addr{}, err
	}
	if t.name != "" {
		if t.addr, err = c.hub.lookup(&t); err != nil {
			return transport.Addr{}, err
		}
	}
	if t.addr == c.local {
		return t.addr, nil
	}
	if err := c.hub.connect(t.addr); err != nil {
		return transport.Addr{}, err
	}
	return t.addr, nil
}

// Flush does nothing: TxBurst has copied every packet when it returns.
func (c *Conn) Flush() {}

// Path describes the way to dst. The MTU is that of the connection which Resolve or a first
// packet made; without one it is Caps.MTU. Private is false for all with
// Config.AllowOtherUsers.
func (c *Conn) Path(dst transport.Addr) transport.Path {
	path := c.path
	if c.closed.Load() {
		return path
	}
	c.takeNews()
	if p := c.peers.get(&dst); p != nil && p.open {
		path.MTU = p.tx.Limit()
	}
	return path
}

// IsPrivate returns Path(from).Private, which is the same for all.
func (c *Conn) IsPrivate(transport.Addr) bool { return c.path.Private }

// Stats returns counters since the start. RxDropped counts connections that ended because
// the other side wrote nonsense: how many packets that cost nobody knows.
func (c *Conn) Stats() transport.Stats {
	s := c.tx.stats
	s.TxCalls += c.tx.wakes
	s.RxPackets, s.RxBytes, s.RxDropped, s.RxCalls = c.rx.packets, c.rx.bytes, c.rx.corrupt, c.rx.calls
	return s
}

// Peers returns how many connections there are. Only for the using goroutine.
func (c *Conn) Peers() int { return len(c.rx.rings) - 1 }

// Close frees the endpoint: its name, its connections, its memory. Received packets
// must not be used any more. See transport.Transport.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.hub.stop()
	c.waiter.sleeper.Stop() // a blocked Wait has returned now
	c.hub.free()
	c.waiter.free()
	return nil
}

// takeNews does what the hub asks for: new peers, attempts that failed, peers that are
// gone. It frees nothing.
func (c *Conn) takeNews() {
	if !c.news.Load() {
		return
	}
	for _, e := range c.hub.take() {
		switch e.kind {
		case eventOpen:
			c.peers.put(e.peer)
			c.rx.add(e.peer)
		case eventFailed:
			c.tx.fail(&c.peers, e.addr)
		case eventGone:
			e.peer.left = true
			c.bury(e.peer)
		}
	}
}

// bury ends sending to a peer. Packets that it sent before are still received, but no more than
// its ring holds.
func (c *Conn) bury(p *peer) {
	if p.dead {
		return
	}
	p.dead = true
	p.until = p.rx.Position() + uint64(len(p.pair)/shmem.CellSize)
	c.rx.dying = append(c.rx.dying, p)
	if c.peers.get(&p.addr) == p {
		c.peers.remove(&p.addr)
	}
}

// Hints tells which peers have gone, see transport.HintGone. The end of a connection's socket says
// so, which only the peer's process can close, and the kernel when that ends. A peer closes it,
// too, if this side has written nonsense into its ring.
func (c *Conn) Hints(hints []transport.Hint) int {
	n := min(len(hints), len(c.gone))
	for i, a := range c.gone[:n] {
		hints[i] = transport.Hint{Kind: transport.HintGone, To: a}
	}
	c.gone = append(c.gone[:0], c.gone[n:]...)
	return n
}

// String describes the endpoint.
func (c *Conn) String() string { return fmt.Sprintf("shm %v", c.local) }
