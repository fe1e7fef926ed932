package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/report"
	"github.com/userspace-rpc/erpc/labs/peers/stubs"
)

// stubsRow is a group of cases with a name for the command line.
type stubsRow struct {
	name, does string
	cases      []stubsCase
}

// stubsCase is a load, and who carries it.
type stubsCase struct {
	report.Case
	load  stubs.Load
	link  linkMode
	alone bool // the load without the others is measured before it
	peers []string

	clients int // processes that make the load at the same time; 0: one
}

// Peers of the cases; the first of each is the base.
var (
	inClear  = []string{"grpc-go", "grpcerpc-udp", "grpcerpc-shm"}
	overTLS  = []string{"grpc-go-tls", "grpcerpc-udp-tls", "grpcerpc-shm-tls"}
	overLink = []string{"grpc-go", "grpcerpc-udp"}
	incasts  = []string{"grpc-go", "grpcerpc-udp", "grpcerpc-udp-small", "grpcerpc-shm"}
)

// stubsRows are all rows, in their order.
func stubsRows() []stubsRow {
	return []stubsRow{
		{"unary", "unary calls", unaryStubs(inClear, [3]float64{6, 2, 1.2})},
		{"streams", "messages of streams", streamStubs(inClear, 1.3)},
		{"tls", "calls and streams with mutual TLS", slices.Concat(
			unaryStubs(overTLS, [3]float64{1.1, 1.1, 1.1}), streamStubs(overTLS, 1.1))},
		{"beside", "echoes of 1 MiB in streams beside small calls", besideStubs()},
		{"mixed", "calls of which few are large", mixedStubs()},
		{"incast", "many processes with large messages for one server", incastStubs()},
		{"blocked", "small messages beside calls that block", blockedStubs()},
		{"idle", "streams that do nothing", idleStubs()},
		{"loss", "links that lose packets (as root)", lossStubs()},
	}
}

// stubsCaseOf returns a case with bars for the ratio of a column to the base's.
func stubsCaseOf(name string, l stubs.Load, peers []string, columns []string, limit report.Limit,
	bounds map[string]float64) stubsCase {
	c := stubsCase{load: l, peers: peers, link: loopback, Case: report.Case{Name: name, What: name,
		Base: peers[0], Columns: columns}}
	for _, column := range columns {
		if bounds[column] == 0 {
			continue
		}
		for _, p := range peers[1:] {
			c.Bars = append(c.Bars, report.Bar{Peer: p, Column: column, Base: c.Base, Limit: limit,
				Bound: bounds[column]})
		}
	}
	return c
}

// faster is a case whose bar is a rate.
func faster(kind string, size, callers int, what string, peers []string, bound float64) stubsCase {
	name := fmt.Sprintf("%s, %s x %d", what, sizeText(size), callers)
	if peers[0] == overTLS[0] {
		name = "TLS, " + name
	}
	return stubsCaseOf(name, stubs.Load{Kind: kind, Size: size, Callers: callers}, peers, callColumns,
		report.AtLeast, map[string]float64{"rate": bound})
}

func unaryStubs(peers []string, bars [3]float64) []stubsCase {
	return []stubsCase{
		faster(stubs.EchoLoad, 32, 64, "unary", peers, bars[0]),
		faster(stubs.EchoLoad, 64<<10, 8, "unary", peers, bars[1]),
		faster(stubs.EchoLoad, 1<<20, 4, "unary", peers, bars[2]),
	}
}

func streamStubs(peers []string, bar float64) (list []stubsCase) {
	for _, tt := range []struct {
		kind, what    string
		size, callers int
	}{
		{stubs.ChatLoad, "ping-pong", 32, 1}, {stubs.ChatLoad, "ping-pong", 32, 64},
		{stubs.ChatLoad, "ping-pong", 64 << 10, 8},
		{stubs.DownLoad, "down", 32, 1}, {stubs.DownLoad, "down", 64 << 10, 1},
		{stubs.DownLoad, "down", 64 << 10, 8},
		{stubs.UpLoad, "up", 32, 1}, {stubs.UpLoad, "up", 64 << 10, 1},
		{stubs.UpLoad, "up", 64 << 10, 8},
	} {
		list = append(list, faster(tt.kind, tt.size, tt.callers, tt.what, peers, bar))
	}
	return list
}

func besideStubs() (list []stubsCase) {
	for _, n := range []int{1, 4, 16} {
		c := stubsCaseOf(fmt.Sprintf("1 MiB on %d streams beside 64 callers", n),
			stubs.Load{Kind: stubs.BesideLoad, Size: 32, Callers: 64, Beside: n, BesideSize: 1 << 20},
			inClear, []string{"beside", "rate", "p50", "p99", "max", "cpu"}, report.AtLeast,
			map[string]float64{"beside": 0.8})
		for _, p := range inClear[1:] {
			c.Bars = append(c.Bars, report.Bar{Peer: p, Column: "p99", Base: c.Base,
				Limit: report.AtMost, Bound: 1})
		}
		list = append(list, c)
	}
	return list
}

func mixedStubs() []stubsCase {
	c := stubsCaseOf("256 callers, one of 1 MiB in 400", stubs.Load{Kind: stubs.MixedLoad, Size: 32,
		Callers: 256, BesideSize: 1 << 20, Every: 400}, inClear,
		[]string{"rate", "cpu", "p50", "p99", "p99.9", "max"}, report.AtLeast, nil)
	for _, p := range inClear[1:] {
		c.Bars = append(c.Bars, report.Bar{Peer: p, Column: "max", Limit: report.AtMost,
			Bound: 250_000}) // us
	}
	return []stubsCase{c}
}

// incastStubs are loads that meet at the server's socket. Packets that are sent again show in the
// client's packets: an echo of 1 MiB has some 140 without, one of 64 KiB ten.
func incastStubs() (list []stubsCase) {
	for _, n := range []int{1, 8, 40} {
		for _, tt := range []struct{ size, callers int }{{64 << 10, 8}, {1 << 20, 4}} {
			c := faster(stubs.EchoLoad, tt.size, tt.callers, fmt.Sprintf("%d clients", n), incasts, 1)
			c.clients, c.Columns = n, []string{"rate", "least", "cpu", "packets", "p50", "p99"}
			list = append(list, c)
		}
	}
	return list
}

func blockedStubs() (list []stubsCase) {
	for _, tt := range []struct {
		kind, what  string
		count, size int
	}{
		{stubs.BlockLoad, "calls", 70, 70 << 10}, {stubs.StuckLoad, "streams", 70, 70 << 10},
		{stubs.BlockLoad, "calls", 8, 4 << 20}, {stubs.StuckLoad, "streams", 8, 4 << 20},
		{stubs.BlockLoad, "calls", 70_000, 32}, {stubs.StuckLoad, "streams", 70_000, 32},
	} {
		c := stubsCaseOf(fmt.Sprintf("8 %s beside %d calls of %s that block", tt.what, tt.count,
			sizeText(tt.size)), stubs.Load{Kind: tt.kind, Size: 32, Callers: 8, Beside: tt.count,
			BesideSize: tt.size}, inClear, []string{"alone p50", "alone p99", "p50", "p99", "more", "max"},
			report.AtMost, nil)
		c.alone = true
		for _, p := range inClear[1:] {
			c.Bars = append(c.Bars, report.Bar{Peer: p, Column: "more", Limit: report.AtMost,
				Bound: 2000}) // us
		}
		list = append(list, c)
	}
	return list
}

func idleStubs() []stubsCase {
	c := stubsCaseOf("10000 streams", stubs.Load{Kind: stubs.IdleLoad, Size: 32, Callers: 10_000},
		inClear, []string{"share", "server"}, report.AtMost, nil)
	for _, p := range inClear[1:] {
		for _, column := range c.Columns {
			c.Bars = append(c.Bars, report.Bar{Peer: p, Column: column, Limit: report.AtMost,
				Bound: 0.005})
		}
	}
	return []stubsCase{c}
}

func lossStubs() (list []stubsCase) {
	for _, share := range []float64{0.001, 0.01} {
		for _, tt := range []struct {
			kind, what    string
			size, callers int
		}{
			{stubs.EchoLoad, "unary", 32, 64}, {stubs.EchoLoad, "unary", 64 << 10, 8},
			{stubs.EchoLoad, "unary", 1 << 20, 4},
			{stubs.ChatLoad, "ping-pong", 32, 64}, {stubs.DownLoad, "down", 64 << 10, 1},
			{stubs.UpLoad, "up", 64 << 10, 1},
		} {
			c := faster(tt.kind, tt.size, tt.callers, tt.what, overLink, 1)
			c.link = losing(share)
			c.Name = c.link.name + ", " + c.Name
			c.What = c.Name + ": " + c.link.what
			list = append(list, c)
		}
	}
	return list
}

// warmup is how long a load runs before it is measured.
func (c *stubsCase) warmup() time.Duration {
	switch c.load.Kind {
	case stubs.BlockLoad, stubs.StuckLoad, stubs.IdleLoad: // all are there, and at rest
		if c.load.Beside > 10_000 {
			return 5 * time.Second
		}
		return 2 * time.Second
	}
	return 200 * time.Millisecond
}
