package auto

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
)

const (
	// quietAfter is how long no packet came over shared memory when that counts as idle.
	quietAfter = 50 * time.Microsecond
	// lookEvery is how often the socket is looked at while shared memory is not idle.
	lookEvery = 10 * time.Microsecond
	// clockEvery is how many empty polls pass between two looks at the clock: a look costs
	// as much as an empty poll.
	clockEvery = 8
)

// TxBurst sends items, see transport.Transport and the two packages.
func (c *Conn) TxBurst(items []transport.TxItem) (int, error) {
	if c.shm == nil || len(items) == 0 {
		return c.udp.TxBurst(items)
	}
	done := 0
	for done < len(items) {
		run, shared := sameWay(items[done:])
		var n int
		var err error
		if shared {
			n, err = c.shm.TxBurst(items[done : done+run])
		} else {
			n, err = c.udp.TxBurst(items[done : done+run])
		}
		done += n
		if n < run || err != nil {
			return done, err
		}
	}
	return done, nil
}

// sameWay returns how many of items, from the first on, go the same way.
func sameWay(items []transport.TxItem) (run int, shared bool) {
	shared = shm.IsAddr(&items[0].Dst)
	for run = 1; run < len(items) && shm.IsAddr(&items[run].Dst) == shared; run++ {
	}
	return run, shared
}

// turns says when RxBurst looks at the socket. The zero turns looks each time.
type turns struct {
	busy   bool          // packets come over shared memory
	fresh  bool          // the last poll brought some
	shared bool          // the last burst brought some
	empty  int           // polls without any, since the clock was read
	last   monotime.Time // when packets came over shared memory
	udp    monotime.Time // when the socket was looked at
}

// due reports whether this poll reads the clock: the first one after packets came over shared
// memory, and each clockEvery-th of the empty ones.
func (t *turns) due() bool {
	if !t.fresh {
		if t.empty++; t.empty < clockEvery {
			return false
		}
	}
	t.empty = 0
	return true
}

// udpFirst reports whether, with shared memory busy, it is the turn of the socket. Only in a
// poll that is due.
func (t *turns) udpFirst(now monotime.Time) bool {
	if t.fresh {
		t.fresh, t.last = false, now
	}
	t.busy = now.Sub(t.last) < quietAfter
	if t.busy && now.Sub(t.udp) < lookEvery {
		return false
	}
	t.udp = now
	return true
}

// RxBurst receives packets, see transport.Transport. Package doc says which way comes when.
func (c *Conn) RxBurst(pkts []transport.RxPacket) (int, error) {
	if c.shm == nil {
		return c.udp.RxBurst(pkts)
	}
	// Either may fill pkts. So that the other still gets its turn, the socket goes first
	// when it is polled seldom, and else last: packets in shared memory make it seldom.
	n := 0
	look := !c.turns.busy
	if !look && c.turns.due() && c.turns.udpFirst(monotime.Now()) {
		var err error
		if n, err = c.udp.RxBurst(pkts); err != nil {
			return n, err
		}
	}
	// Packets of the last burst end here, both kinds: the socket's memory is reused by its own
	// next RxBurst, which is this call or a later one.
	got, err := c.shm.RxBurst(pkts[n:])
	n += got
	if c.turns.shared = got > 0; got > 0 {
		c.turns.busy, c.turns.fresh = true, true
	}
	if err != nil || !look {
		return n, err
	}
	got, err = c.udp.RxBurst(pkts[n:])
	return n + got, err
}
