package shm

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

const (
	// publishCells is how many cells are written before the reader may see the first:
	// little enough that both sides copy at the same time.
	publishCells = 16 << 10 / shmem.CellSize
	// failedTime is how long an address that could not be connected to is left alone.
	failedTime = 100 * time.Millisecond
	maxFailed  = 64
)

// transmitter is the sending half of a Conn.
type transmitter struct {
	stats  transport.Stats // of sending
	wakes  uint64          // system calls that woke a reader
	failed []failure
	// patience is stuckAfter, unless a test says otherwise.
	patience time.Duration
}

// failure is an address that could not be connected to lately.
type failure struct {
	addr  transport.Addr
	until monotime.Time
}

// TxBurst sends items, see transport.Transport. A full ring makes it take fewer; one
// whose reader has not moved for 50 ms makes it drop the packets, as a network would,
// so that a stopped process does not hold up the others. While a connection to an
// address is being made it takes fewer too, for at most a second.
func (c *Conn) TxBurst(items []transport.TxItem) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	c.takeNews()
	t := &c.tx
	var p *peer
	var dropped, bytes uint64
	n := 0
	for ; n < len(items); n++ {
		it := &items[n]
		if p == nil || it.Dst != p.addr {
			if p != nil {
				t.publish(p)
			}
			if p = c.find(&it.Dst); p == nil {
				dropped++
				continue
			}
		}
		if p.tx.Put(it.Head, it.Data) {
			bytes += uint64(len(it.Head) + len(it.Data))
			if p.tx.Unpublished() >= publishCells {
				t.publish(p)
			}
			continue
		}
		if p.open && len(it.Head)+len(it.Data) > p.tx.Limit() {
			dropped++
			continue
		}
		if !c.givesUp(p) {
			t.stats.TxStalls++
			break
		}
		dropped++
	}
	if p != nil {
		t.publish(p)
	}
	t.stats.TxPackets += uint64(n) - dropped
	t.stats.TxDropped += dropped
	t.stats.TxBytes += bytes
	return n, nil
}

// publish makes the reader see what was put, and wakes it if it sleeps.
func (t *transmitter) publish(p *peer) {
	if p.tx.Unpublished() == 0 {
		return
	}
	if p.waits != 0 {
		p.waits, p.stuck = 0, false
	}
	t.stats.TxCalls++
	p.tx.Publish()
	if p.bell.Asleep() && p.fd >= 0 {
		t.wakes++
		// A full socket buffer is a reader with wake-ups that it has not read: it will.
		_ = unix.Sendto(p.fd, wakeByte, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	}
}

var wakeByte = []byte{1}

// givesUp says what becomes of a packet that p cannot take: true means that it is dropped.
func (c *Conn) givesUp(p *peer) bool {
	switch {
	case p.dead:
		return true
	case p.open && p.tx.Broken():
		c.condemn(p)
		return true
	}
	if p.waits == 0 || p.open && p.tx.Progress() != p.progress {
		p.waits, p.stuck = monotime.Now(), false
		if p.open {
			p.progress = p.tx.Progress()
		}
		return false
	}
	limit := c.tx.patience
	if !p.open {
		limit = connectWait
	}
	p.stuck = p.stuck || monotime.Now().Sub(p.waits) > limit
	return p.stuck
}

// find returns where packets to an address go. It begins to connect if need be. nil
// means that the packet cannot be sent.
func (c *Conn) find(a *transport.Addr) *peer {
	if p := c.peers.get(a); p != nil {
		return p
	}
	if !isAddr(*a) || c.tx.failedLately(a) {
		return nil
	}
	p := &peer{addr: *a, fd: -1, tx: shmem.NoProducer()}
	c.peers.put(p)
	c.hub.begin(*a)
	return p
}

// fail notes that an address cannot be connected to.
func (t *transmitter) fail(peers *table, a transport.Addr) {
	if p := peers.get(&a); p != nil && !p.open {
		peers.remove(&a)
	}
	if len(t.failed) == maxFailed {
		t.failed = append(t.failed[:0], t.failed[1:]...)
	}
	t.failed = append(t.failed, failure{a, monotime.Now().Add(failedTime)})
}

func (t *transmitter) failedLately(a *transport.Addr) bool {
	for i := range t.failed {
		if t.failed[i].addr == *a && monotime.Now() < t.failed[i].until {
			return true
		}
	}
	return false
}
