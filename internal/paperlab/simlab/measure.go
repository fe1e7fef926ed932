package simlab

import (
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
)

// mark has the counters of a thread at some moment. The transport's counters are
// exact; those of the Rpc are about a millisecond of virtual time old.
type mark struct {
	rpc erpc.Stats
	tr  transport.Stats
}

func (t *thread) mark() mark { return mark{t.rpc.Stats(), t.ep.Stats()} }

// marks takes the marks of several threads.
func marks(threads []*thread) []mark {
	all := make([]mark, len(threads))
	for i, t := range threads {
		all[i] = t.mark()
	}
	return all
}

// received returns the bytes of message data that a thread took in since a mark:
// without headers, and without the packets that it had before or could not use. A
// server's answers to packets that it had before count as its retransmissions.
func (t *thread) received(since *mark, server bool) float64 {
	now := t.mark()
	packets := now.tr.RxPackets - since.tr.RxPackets
	bytes := float64(now.tr.RxBytes-since.tr.RxBytes) - float64(packets)*wire.HeaderSize
	a, b := &now.rpc.Protocol, &since.rpc.Protocol
	useless := a.DropFuture - b.DropFuture + a.DropPast - b.DropPast + a.DropUnsent - b.DropUnsent
	if server {
		useless += a.Retransmits - b.Retransmits
	}
	if packets > 0 {
		bytes -= float64(useless) * bytes / float64(packets)
	}
	return bytes
}

// gbps turns bytes in d into gigabits per second.
func gbps(bytes float64, d time.Duration) float64 { return bytes * 8 / float64(d) }

// us turns a duration into microseconds.
func us(d time.Duration) float64 { return float64(d) / 1e3 }

// jain returns Jain's fairness index of shares: 1 if all are equal, 1/n if one has
// all (Jain, Chiu and Hawe, DEC TR-301). 0 if there is nothing.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// dropsAt returns the packets that switches dropped in the whole network.
func dropsAt(n *sim.Network) uint64 { return n.Stats().TailDrops }
