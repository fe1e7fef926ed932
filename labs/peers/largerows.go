package main

import (
	"fmt"

	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// linkMode describes the network between client and server.
type linkMode struct {
	name     string
	what     string
	features string  // of both ends, for ethtool -K; empty: as the kernel makes them
	loss     float64 // share of the packets that are lost in each direction
}

// Links of the rows. A loopback is no link.
var (
	loopback = linkMode{name: "loopback", what: "loopback"}
	veth     = linkMode{name: "veth", what: "a veth pair of MTU 1500 that takes trains whole"}
	software = linkMode{name: "software GSO", what: "a veth pair of MTU 1500; " +
		"the kernel cuts trains and joins packets",
		features: "tso off tx-udp-segmentation off gso on gro on"}
	bareLink = linkMode{name: "all off", what: "a veth pair of MTU 1500; nothing cuts or joins",
		features: "tso off tx-udp-segmentation off gso off gro off"}
)

// losing is software with lost packets.
func losing(share float64) linkMode {
	m := software
	m.name = fmt.Sprintf("%.3g %% lost", 100*share)
	m.what = fmt.Sprintf("a veth pair of MTU 1500 that loses %.3g %% of the packets each way, "+
		"single ones", 100*share)
	m.loss = share
	return m
}

// The sorts of contestants: those whose calls come from goroutines, and those of which a thread of
// each side spins. Each sort has a base.
const (
	clientBase = "tcp-mux"
	reuseBase  = "tcp-mux-reuse"
	oursReuse  = "erpc-reuse"
	loopBase   = "tcp-spin"
	ourLoop    = "erpc-loop"
	bareName   = "udp-bare"
)

// largePeers are the peers behind the contestants' names, where these differ.
var largePeers = map[string]string{ours: "erpc-call", loopBase: "tcp"}

var (
	largeClients = []string{clientBase, ours, reuseBase, oursReuse, "grpc-go", "quic"}
	largeLoops   = []string{loopBase, ourLoop, bareName}
	largeColumns = []string{"rate", "cpu", "p50", "p99", "p99.9", "max", "packets", "sends",
		"server packets", "server sends"}
)

// sizeText is a size in bytes for people.
func sizeText(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// largeRows are all rows, in their order.
func largeRows() []goRow {
	return []goRow{
		{"large", "echoes of 16 KiB to 64 MiB", largeCases()},
		{"crowd", "8 client processes of one server", crowdCases()},
		{"mixed", "small calls beside large ones", mixedCases()},
		{"loss", "links that lose packets", lossCases()},
	}
}

// echoes are two cases of a size on a link: of clients and of loops.
func echoes(size, window int, m linkMode) (clients, loops goCase) {
	of := func(sort, base string, peers []string) goCase {
		return goCase{kind: largeKind, size: size, callers: window, link: m, peers: peers,
			Case: report.Case{Name: fmt.Sprintf("%s x %d, %s, %s", sizeText(size), window, m.name, sort),
				What: fmt.Sprintf("echo of %s, %d in flight, %s", sizeText(size), window, m.what),
				Base: base, Columns: largeColumns}}
	}
	return of("clients", clientBase, largeClients), of("loops", loopBase, largeLoops)
}

// beside is a bar for the ratio of rates.
func beside(peer, base string, bound float64) report.Bar {
	return report.Bar{Peer: peer, Column: "rate", Base: base, Limit: report.AtLeast, Bound: bound}
}

// clientPairs are the bars for messages that have memory of their own, and for those that use
// memory again.
func clientPairs(bound float64) []report.Bar {
	return []report.Bar{beside(ours, clientBase, bound), beside(oursReuse, reuseBase, bound)}
}

func largeCases() (list []goCase) {
	for _, tt := range []struct{ size, window int }{
		{16 << 10, 8}, {64 << 10, 8}, {1 << 20, 2}, {64 << 20, 1},
	} {
		for _, m := range []linkMode{loopback, veth, software, bareLink} {
			c, l := echoes(tt.size, tt.window, m)
			switch {
			case tt.size > 1<<20:
				for _, k := range []*goCase{&c, &l} {
					k.Columns = append(k.Columns[:len(k.Columns):len(k.Columns)], "memory")
				}
				c.Bars = []report.Bar{memoryBar(ours), memoryBar(oursReuse)}
				l.Bars = []report.Bar{memoryBar(ourLoop)}
			case m.name == bareLink.name:
				l.Bars = []report.Bar{beside(ourLoop, bareName, 0.85)}
			default:
				c.Bars = clientPairs(clientBars[m.name])
				if tt.size > 16<<10 {
					l.Bars = []report.Bar{beside(ourLoop, loopBase, loopBars[m.name])}
				}
			}
			list = append(list, c, l)
		}
	}
	return list
}

// The bars of large messages by the link's name.
var (
	clientBars = map[string]float64{loopback.name: 1, veth.name: 1, software.name: 0.8}
	loopBars   = map[string]float64{loopback.name: 0.8, veth.name: 1, software.name: 0.8}
)

func memoryBar(peer string) report.Bar {
	return report.Bar{Peer: peer, Column: "memory", Limit: report.AtMost, Bound: 100e6}
}

// A crowd is so many client processes.
const crowdClients = 8

func crowdCases() (list []goCase) {
	for _, window := range []int{1, 8} {
		c, _ := echoes(64<<10, window, software)
		c.kind = crowdKind
		c.Name = fmt.Sprintf("%d clients, %s", crowdClients, c.Name)
		c.What = fmt.Sprintf("%d client processes of one server, each: %s", crowdClients, c.What)
		c.Columns = append([]string{"rate", "least"}, largeColumns[1:]...)
		c.Bars = append(clientPairs(0.8),
			report.Bar{Peer: ours, Column: "least", Limit: report.AtLeast, Bound: 0.5})
		list = append(list, c)
	}
	return list
}

// The larger calls that the small ones of a mixed case are beside.
const (
	mixedSize   = 64 << 10
	mixedWindow = 8
)

func mixedCases() (list []goCase) {
	for _, m := range []linkMode{veth, software} {
		c, l := echoes(32, 8, m)
		for _, k := range []*goCase{&c, &l} {
			k.kind = mixedKind
			k.What += fmt.Sprintf("; alone, then beside %d of %s on the same connection", mixedWindow,
				sizeText(mixedSize))
			k.Columns = []string{"alone p50", "alone p99", "p50", "p99", "growth", "rate", "beside"}
		}
		l.peers = []string{loopBase, ourLoop, bareName}
		c.Bars, l.Bars = []report.Bar{growthBar(ours)}, []report.Bar{growthBar(ourLoop)}
		list = append(list, c, l)
	}
	return list
}

func growthBar(peer string) report.Bar {
	return report.Bar{Peer: peer, Column: "growth", Limit: report.AtMost, Bound: 2}
}

func lossCases() (list []goCase) {
	for _, tt := range []struct{ share, small, large float64 }{{0.001, 1.1, 0.6}, {0.01, 2, 1.2}} {
		c, l := echoes(32, 60, losing(tt.share))
		l.Bars = []report.Bar{beside(ourLoop, loopBase, tt.small),
			{Peer: ourLoop, Column: "p99.9", Limit: report.Below, Bound: 3_000}, // us
			{Peer: ourLoop, Column: "max", Share: 0.8, Limit: report.Below, Bound: 20_000}}
		lc, ll := echoes(1<<20, 2, losing(tt.share))
		lc.Bars = clientPairs(tt.large)
		ll.Bars = []report.Bar{beside(ourLoop, loopBase, tt.large)}
		l.peers = []string{loopBase, ourLoop} // nothing sends again what udp-bare has lost
		ll.peers = l.peers
		list = append(list, c, l, lc, ll)
	}
	return list
}
