package main

import (
	"fmt"

	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// linkMode is what lies between client and server.
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
	loopBase   = "tcp-spin"
	ourLoop    = "erpc-loop"
	bareName   = "udp-bare"
)

// largePeers are the peers behind the contestants' names, where these differ.
var largePeers = map[string]string{ours: "erpc-call", loopBase: "tcp"}

var (
	largeClients = []string{clientBase, ours, "grpc-go", "quic"}
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
				c.Bars, l.Bars = []report.Bar{memoryBar(ours)}, []report.Bar{memoryBar(ourLoop)}
			case m.name == bareLink.name:
				l.Bars = []report.Bar{beside(ourLoop, bareName, 0.85)}
			default:
				c.Bars = []report.Bar{beside(ours, clientBase, clientBars[m.name])}
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
