package udp

import (
	"errors"
	"net/netip"
	"os"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// Translators of addresses know a flow by its ports, and lead it to one host for as long as packets
// of it come, also when that host is gone. So a peer that does not answer can be sent to from
// another socket. A Conn that has none but its own pays one look at a nil pointer for each burst.
const (
	// maxOutlets is how many further sockets a Conn has at most.
	maxOutlets = 4
	// maxRenewed is how many peers leave by them at most.
	maxRenewed = 1024
	// renewedFor is how long a peer keeps its socket that is sent nothing; sessions send pings.
	renewedFor = time.Minute
	// renewPause is how long a socket counts as new: peers that are renewed at once share it, and one
	// that has it keeps it.
	renewPause = time.Second
)

// outlet is a further socket.
type outlet struct {
	fd     int
	born   monotime.Time
	peers  int // that leave by it
	rx     receiver
	errors errorQueue
}

// renewedPeer is a peer to which packets leave by an outlet.
type renewedPeer struct {
	by *outlet
	at monotime.Time // when the last packet left
}

// outlets are the further sockets of a Conn.
type outlets struct {
	all   []*outlet
	peers map[transport.Addr]*renewedPeer
	turn  int             // whose packets come first in the next burst
	past  transport.Stats // of those that are closed
	soft  uint64          // errors of those
}

// renew has packets to dst leave by another port from now on.
func (c *kernelConn) renew(dst *transport.Addr) error {
	var sa sockaddr
	switch {
	case c.closed.Load():
		return transport.ErrClosed
	case c.fixed || c.group != nil:
		return transport.ErrUnsupported
	case !sa.put(dst, c.ip4):
		return badAddress(dst.String(), "not an address to send to")
	}
	now := monotime.Now()
	if c.out == nil {
		c.out = &outlets{peers: make(map[transport.Addr]*renewedPeer)}
	}
	c.out.expire(now)
	p := c.out.peers[*dst]
	if p != nil && now.Sub(p.by.born) < renewPause {
		return nil // it has just been renewed
	}
	to, err := c.outletFor(p, now)
	if err != nil {
		return err
	}
	if p == nil {
		c.out.makeRoom()
		p = &renewedPeer{}
		c.out.peers[*dst] = p
	} else {
		p.by.peers--
	}
	p.by, p.at = to, now
	to.peers++
	c.closeOutlets()
	return nil
}

// outletFor returns an outlet that a peer, which may have one, has not used: the newest, or another
// one, or if there are too many the oldest.
func (c *kernelConn) outletFor(p *renewedPeer, now monotime.Time) (*outlet, error) {
	var newest, oldest *outlet
	for _, o := range c.out.all {
		if p != nil && o == p.by {
			continue
		}
		if newest == nil || o.born > newest.born {
			newest = o
		}
		if oldest == nil || o.born < oldest.born {
			oldest = o
		}
	}
	alone := p != nil && p.by.peers == 1 // then its own one makes room
	switch {
	case newest != nil && now.Sub(newest.born) < renewPause:
		return newest, nil
	case len(c.out.all) < maxOutlets || alone:
		return c.openOutlet(now)
	}
	return oldest, nil
}

// openOutlet opens one more socket, on the address of the first. A socket belongs to the network
// namespace of the thread that opens it. The first one may belong to another, where the same
// addresses lead to other hosts.
func (c *kernelConn) openOutlet(now monotime.Time) (*outlet, error) {
	ip := c.local.AddrPort().Addr()
	l := listenAddr{ap: netip.AddrPortFrom(ip, 0), scope: c.local.Scope}
	fd, err := bindSocket(l, c.ip4, c.cfg)
	if err != nil {
		return nil, err
	}
	if own, known := c.namespace(); known {
		if id, err := namespaceOf(fd); err != nil || id != own {
			unix.Close(fd)
			return nil, transport.ErrUnsupported
		}
	}
	o := &outlet{fd: fd, born: now}
	o.errors.init(fd, c.ip4)
	// No trains: their buffers are large, and few packets come here.
	o.rx.init(fd, c.cfg.MTU, false, c.cfg.ECN, c.tx.sources, &o.errors)
	c.freeMu.Lock()
	defer c.freeMu.Unlock()
	if err = c.sleeper.Also(fd); err != nil { // ErrClosed if Close has been here
		unix.Close(fd)
		return nil, err
	}
	c.out.all = append(c.out.all, o)
	return o, nil
}

// expire forgets peers that were sent nothing for long.
func (s *outlets) expire(now monotime.Time) {
	for a, p := range s.peers {
		if now.Sub(p.at) > renewedFor {
			s.forget(a, p)
		}
	}
}

// makeRoom forgets the peer that was sent nothing for the longest time, if there are too many for
// one more. A session to a peer that is still sent to would end.
func (s *outlets) makeRoom() {
	if len(s.peers) < maxRenewed {
		return
	}
	var addr transport.Addr
	var oldest *renewedPeer
	for a, p := range s.peers {
		if oldest == nil || p.at < oldest.at {
			addr, oldest = a, p
		}
	}
	s.forget(addr, oldest)
}

func (s *outlets) forget(a transport.Addr, p *renewedPeer) {
	p.by.peers--
	delete(s.peers, a)
}

// closeOutlets closes those that nobody leaves by.
func (c *kernelConn) closeOutlets() {
	c.freeMu.Lock()
	defer c.freeMu.Unlock()
	kept := c.out.all[:0]
	for _, o := range c.out.all {
		if o.peers > 0 || c.freed {
			kept = append(kept, o)
			continue
		}
		o.rx.readDrops()
		o.addTo(&c.out.past)
		c.out.soft += o.rx.soft
		unix.Close(o.fd) // which takes it out of the sleeper's set
	}
	clear(c.out.all[len(kept):])
	c.out.all = kept
}

// addTo adds what an outlet has received to s.
func (o *outlet) addTo(s *transport.Stats) {
	s.RxPackets += o.rx.packets
	s.RxBytes += o.rx.bytes
	s.RxDropped += o.rx.dropped
	s.RxCalls += o.rx.calls
}

// freeOutlets closes all. The Conn is closed, and freeMu is held.
func (c *kernelConn) freeOutlets() (err error) {
	if c.out == nil {
		return nil
	}
	for _, o := range c.out.all {
		if e := unix.Close(o.fd); e != nil {
			err = errors.Join(err, os.NewSyscallError("close", e))
		}
	}
	return err
}

// txOutlets is burst with outlets: items leave in runs, each by its socket.
func (c *kernelConn) txOutlets(items []transport.TxItem) (int, unix.Errno) {
	t, now := &c.tx, monotime.Now()
	defer func() { t.fd, t.errors = c.fd, &c.errors }()
	for done := 0; done < len(items); {
		p := c.out.peers[items[done].Dst]
		run := done + 1
		for run < len(items) && c.out.peers[items[run].Dst] == p {
			run++
		}
		t.fd, t.errors = c.fd, &c.errors
		if p != nil {
			p.at = now
			t.fd, t.errors = p.by.fd, &p.by.errors
		}
		n, err := t.burst(items[done:run])
		if t.errors.due {
			t.errors.read()
		}
		if done += n; err != 0 || done < run {
			return done, err
		}
	}
	return len(items), 0
}

// rxOutlets is burst with outlets, which take turns.
func (c *kernelConn) rxOutlets(pkts []transport.RxPacket) (n int, err unix.Errno) {
	c.out.turn++
	count := len(c.out.all) + 1
	for i := range count {
		r, q := &c.rx, &c.errors
		if at := (c.out.turn + i) % count; at > 0 {
			r, q = &c.out.all[at-1].rx, &c.out.all[at-1].errors
		}
		got, e := r.burst(pkts[n:])
		if q.due {
			q.read()
		}
		if n += got; e != 0 {
			return n, e
		}
	}
	return n, 0
}

// pending reports whether an outlet has read packets that were not returned.
func (s *outlets) pending() bool {
	for _, o := range s.all {
		if o.rx.pending() {
			return true
		}
	}
	return false
}

// stats adds what the outlets have received to s.
func (s *outlets) stats(to *transport.Stats, freed bool) {
	to.RxPackets += s.past.RxPackets
	to.RxBytes += s.past.RxBytes
	to.RxDropped += s.past.RxDropped
	to.RxCalls += s.past.RxCalls
	for _, o := range s.all {
		if !freed {
			o.rx.readDrops()
		}
		o.addTo(to)
	}
}

// drain adds hints of the outlets.
func (s *outlets) drain(hints []transport.Hint) (n int) {
	for _, o := range s.all {
		n += o.errors.hints.Drain(hints[n:])
	}
	return n
}
