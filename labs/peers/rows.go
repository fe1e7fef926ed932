package main

import (
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// goRow is a group of cases with a name for the command line.
type goRow struct {
	name, does string
	cases      []goCase
}

// kind says which sort of contestants a case has.
type kind int

const (
	callKind  kind = iota // peers, a client and a server of each
	idleKind              // peers, many clients and servers of each
	loopKind              // bin/erpc bench with different flags
	killKind              // peers, a client of two servers of each
	largeKind             // peers of largeRows, a client and a server of each
	crowdKind             // ... many client processes of each
	mixedKind             // ... small calls alone and beside large ones
)

// goCase is one case and how its contestants are measured.
type goCase struct {
	report.Case
	kind     kind
	callers  int     // calls in flight; of an open loop the most
	arrivals float64 // calls per second of an open loop; 0: a closed one
	work     echo.Work
	oneCore  bool      // client and server share a core
	oneProc  bool      // this library's client and server with GOMAXPROCS=1 take part
	spins    bool      // a goroutine of the client computes
	half     halfRates // an open loop, at half of the base's rate in a closed one; else nil
	busy     bool      // another process uses each core
	turns    int       // in each round; 0: one
	loops    []loopVariant
	peers    []string // whom it compares; nil: those of the flag
	size     int      // bytes of a message, of largeRows
	link     linkMode // between client and server, likewise
}

// loopVariant is one way to run bin/erpc bench rate.
type loopVariant struct {
	name      string
	transport string
	flags     []string
}

// ours is the contestant that the bars of most rows are for.
const ours = "erpc-client"

// oneProcName is this library's client and server with GOMAXPROCS=1, at oneProc.
const oneProcName = "GOMAXPROCS=1"

var oneProc = spot{core: -1, procs: 1}

// muxName is the peer that the bars of the row mux are beside.
const muxName = "mux"

// leastMuxName is the peer that is beside both with many callers: what it takes is the cost of the
// switches between callers and loops, and of datagrams.
const leastMuxName = "udp-mux"

// leastName is the peer that is beside the others in open loops: what it takes is the cost of
// waking up, which no library avoids.
const leastName = "net-udp"

// openWindow is the most calls that an open loop has in flight; a peer that needs a
// connection for each has perCallConns of them.
const (
	openWindow   = 4096
	perCallConns = 256
)

// idleClients is how many clients, and as many servers, the idle row has.
const idleClients = 100

var (
	callColumns = []string{"rate", "cpu", "p50", "p99"}
	openColumns = append([]string{"late"}, callColumns...)
	loopColumns = callColumns
	idleColumns = []string{"share", "server", "threads"}
	dialColumns = []string{"rate", "cpu", "p50", "p99.9", "max"}
	killColumns = []string{"lowest", "lost", "excess", "ejected"}
)

// goRows are all rows, in their order.
func goRows() []goRow {
	return []goRow{
		{"callers", "1 to 1,000 goroutines that call", callerCases()},
		{"mux", "1 to 1,000 callers, and open loops, beside a TCP mux", muxCases()},
		{"processors", "64 callers, with all processors and with GOMAXPROCS=1",
			[]goCase{processorCase()}},
		{"spinner", "a goroutine of the client computes", []goCase{spinnerCase()}},
		{"half", "calls arrive at half of the rate of 64 callers of grpc-go", []goCase{halfCase()}},
		{"one-core", "client and server share a core", oneCoreCases()},
		{"neighbours", "other processes use the cores", []goCase{neighbourCase()}},
		{"open", "calls arrive at random, whether others are answered or not", openCases()},
		{"blocking", "handlers sleep", blockingCases()},
		{"computing", "handlers compute", []goCase{computingCase()}},
		{"idle", "many clients that do nothing", []goCase{idleCase()}},
		{"dial", "each call dials, calls and closes", dialCases()},
		{"kill", "one of two servers is killed and comes back", []goCase{killCase()}},
		{"loops", "event loops that wait in different ways, and more of them than cores", loopCases()},
		{"bistable", "one caller, in runs of its own", []goCase{bistableCase()}},
	}
}

// than is a bar for this library's client beside grpc-go.
func than(column string, l report.Limit, bound float64) report.Bar {
	return report.Bar{Peer: ours, Column: column, Base: defaultBase, Limit: l, Bound: bound}
}

// calls is a case of a closed loop.
func calls(callers int, what string, bars ...report.Bar) goCase {
	name := fmt.Sprintf("%d callers", callers)
	if callers == 1 {
		name = "1 caller"
	}
	return goCase{callers: callers, Case: report.Case{Name: name, What: what, Base: defaultBase,
		Columns: callColumns, Bars: bars}}
}

func callerCases() (list []goCase) {
	bars := map[int][]report.Bar{
		64: {than("rate", report.AtLeast, 20), than("cpu", report.AtMost, 1.0/18)},
	}
	for _, n := range []int{1, 8, 64, 256, 1000} {
		list = append(list, calls(n, "32 B echo, unpinned, handlers that may block", bars[n]...))
	}
	return list
}

// beside gives a case another base.
func (c goCase) beside(base string) goCase {
	c.Base = base
	for i := range c.Bars {
		c.Bars[i].Base = base
	}
	return c
}

// muxCases are closed and open loops beside mux.
func muxCases() (list []goCase) {
	for _, tt := range []struct {
		callers int
		rate    float64
	}{{1, 1.5}, {64, 2}, {512, 1.4}, {1000, 1.3}} {
		list = append(list, calls(tt.callers, "32 B echo, unpinned",
			than("rate", report.AtLeast, tt.rate)))
		list[len(list)-1].peers = []string{muxName, leastMuxName, ours}
	}
	for _, c := range openCases() {
		c.Bars = []report.Bar{than("cpu", report.AtMost, 0.9), than("p50", report.AtMost, 1.1),
			than("p99", report.AtMost, 1.1)}
		list = append(list, c)
	}
	for i := range list {
		if list[i] = list[i].beside(muxName); list[i].peers == nil {
			list[i].peers = []string{muxName, ours}
		}
	}
	return list
}

func processorCase() goCase {
	c := calls(64, "32 B echo, unpinned, both sides with so many processors",
		than("rate", report.AtLeast, 0.9)).beside(oneProcName)
	c.oneProc, c.peers = true, []string{ours}
	return c
}

func spinnerCase() goCase {
	c := calls(64, "32 B echo, unpinned, and a goroutine of the client that computes",
		report.Bar{Peer: ours, Column: "kept", Limit: report.AtLeast, Bound: 0.9})
	c.Columns = append([]string{"kept"}, callColumns...)
	c.spins, c.peers = true, []string{defaultBase, muxName, ours}
	return c
}

func halfCase() goCase {
	c := calls(64,
		"32 B echo, unpinned, Poisson arrivals, at half of the rate of 64 callers of "+defaultBase,
		than("p99.9", report.AtMost, 0.3))
	c.Columns, c.half = append(openColumns, "p99.9"), halfRates{}
	c.peers = []string{defaultBase, muxName, ours}
	return c
}

func oneCoreCases() []goCase {
	const what = "32 B echo, client and server on one core"
	list := []goCase{
		calls(1, what, than("rate", report.AtLeast, 3)),
		calls(64, what, than("rate", report.AtLeast, 12)),
	}
	for i := range list {
		list[i].oneCore = true
	}
	return list
}

func neighbourCase() goCase {
	c := calls(64, "32 B echo, unpinned, and a busy process on each core",
		than("rate", report.AtLeast, 10))
	c.busy = true
	return c
}

func openCases() (list []goCase) {
	const what = "32 B echo, unpinned, Poisson arrivals, a goroutine for each call, " +
		"latency from the arrival"
	for _, tt := range []struct{ rate, cpu float64 }{
		{5e3, 1.0 / 2}, {20e3, 1.0 / 3}, {50e3, 1.0 / 3},
	} {
		c := calls(openWindow, what, than("cpu", report.AtMost, tt.cpu), than("p50", report.Below, 1),
			than("p99", report.Below, 1))
		c.Name = fmt.Sprintf("%.0f k calls/s", tt.rate/1e3)
		c.Columns, c.arrivals = openColumns, tt.rate
		list = append(list, c)
	}
	return list
}

func blockingCases() (list []goCase) {
	for _, tt := range []struct {
		sleep time.Duration
		rate  float64
	}{{time.Millisecond, 0.95}, {10 * time.Millisecond, 1}} {
		for _, n := range []int{64, 200} {
			c := calls(n, fmt.Sprintf("32 B echo, unpinned, handlers sleep %v", tt.sleep),
				than("rate", report.AtLeast, tt.rate), than("cpu", report.AtMost, 0.7))
			c.Name = fmt.Sprintf("%v, %s", tt.sleep, c.Name)
			c.work.Sleep = tt.sleep
			list = append(list, c)
		}
	}
	return list
}

func computingCase() goCase {
	c := calls(64, "32 B echo, unpinned, handlers compute 50us", than("rate", report.AtLeast, 1.4))
	c.work.Compute = 50 * time.Microsecond
	return c
}

func idleCase() goCase {
	what := fmt.Sprintf("%d clients in one process, each connected to one of %d servers in another; "+
		"those of %s share one Loop", idleClients, idleClients, ours)
	return goCase{kind: idleKind, Case: report.Case{Name: fmt.Sprintf("%d clients", idleClients),
		What: what, Columns: idleColumns, Bars: []report.Bar{
			{Peer: ours, Column: "share", Limit: report.AtMost, Bound: 0.005},
			{Peer: ours, Column: "threads", Limit: report.AtMost, Bound: 4},
		}}}
}

// dialCases are calls of which each has a connection: beside grpc-go in the clear, and with mutual
// TLS.
func dialCases() (list []goCase) {
	sorts := []struct {
		name, base string
		peers      []string
		bars       map[string]float64
	}{
		{"plain", "grpc-go-dial",
			[]string{"tcp-dial", "erpc-dial", "erpc-loop-dial", "erpc-psk-dial", "erpc-psk-loop-dial"},
			map[string]float64{"erpc-dial": 2, "erpc-loop-dial": 2, "erpc-psk-dial": 2,
				"erpc-psk-loop-dial": 2}},
		{"TLS", "grpc-go-tls-dial",
			[]string{"erpc-tls-dial", "erpc-tls-loop-dial", "erpc-tls-new-dial",
				"erpc-tls-new-loop-dial"},
			map[string]float64{"erpc-tls-dial": 1.2, "erpc-tls-loop-dial": 1.2,
				"erpc-tls-new-dial": 0.8, "erpc-tls-new-loop-dial": 0.8}},
	}
	for _, s := range sorts {
		for _, n := range []int{1, 8, 64} {
			c := calls(n, "each call dials, calls 32 B echo and closes; "+s.name)
			c.Name = s.name + ", " + c.Name
			c.Base, c.Columns, c.peers = s.base, dialColumns, append([]string{s.base}, s.peers...)
			for _, name := range s.peers {
				if s.bars[name] == 0 {
					continue
				}
				c.Bars = append(c.Bars,
					report.Bar{Peer: name, Column: "rate", Base: s.base, Limit: report.AtLeast,
						Bound: s.bars[name]},
					report.Bar{Peer: name, Column: "p99.9", Limit: report.AtMost, Bound: 20_000}, // us
					report.Bar{Peer: name, Column: "max", Limit: report.Below, Bound: 200_000})
			}
			list = append(list, c)
		}
	}
	return list
}

func killCase() goCase {
	what := fmt.Sprintf("one client of two server processes, 32 B echo, Poisson arrivals, %.0f k "+
		"calls/s; one of the servers is killed with SIGKILL, and started again on its port", killRate/1e3)
	bar := func(column string, l report.Limit, bound float64) report.Bar {
		return report.Bar{Peer: ours, Column: column, Limit: l, Bound: bound}
	}
	return goCase{kind: killKind, Case: report.Case{Name: "2 servers", What: what,
		Columns: killColumns, Bars: []report.Bar{
			bar("lowest", report.AtLeast, 0.9), bar("excess", report.AtMost, 10),
			bar("ejected", report.AtMost, 100_000), // us
		}}}
}

// waiting are variants that differ in how an idle loop waits.
func waiting(transport string, how ...string) (list []loopVariant) {
	for _, w := range how {
		list = append(list, loopVariant{w, transport, []string{"--wait=" + w}})
	}
	return list
}

func loopCases() []goCase {
	loop := func(name, what, base string, loops []loopVariant, bars ...report.Bar) goCase {
		for i := range bars {
			bars[i].Column, bars[i].Base, bars[i].Limit = "rate", base, report.AtLeast
		}
		return goCase{kind: loopKind, loops: loops, Case: report.Case{Name: name, What: what, Base: base,
			Columns: loopColumns, Bars: bars}}
	}
	const unpinned = "erpc bench rate, unpinned, 60 in flight of each thread, "
	busy := loop("busy cores", unpinned+"UDP, and a busy process on each core", "sleep",
		waiting("udp", "sleep", "adaptive", "spin"),
		report.Bar{Peer: "adaptive", Bound: 0.9}, report.Bar{Peer: "spin", Bound: 0.3})
	busy.busy = true
	return []goCase{
		loop("threads", unpinned+"UDP, loops that spin", "1 thread", []loopVariant{
			{"1 thread", "udp", []string{"--threads=1"}}, {"4 threads", "udp", []string{"--threads=4"}},
		}, report.Bar{Peer: "4 threads", Bound: 0.5}),
		loop("udp", unpinned+"UDP", "spin", waiting("udp", "spin", "adaptive"),
			report.Bar{Peer: "adaptive", Bound: 0.9}),
		loop("shm", unpinned+"shared memory", "spin", waiting("shm", "spin", "adaptive", "sleep"),
			report.Bar{Peer: "adaptive", Bound: 0.8}, report.Bar{Peer: "sleep", Bound: 0.25}),
		busy,
	}
}

func bistableCase() goCase {
	c := calls(1, "32 B echo, unpinned, two runs in each round",
		report.Bar{Peer: ours, Column: "rate", Worst: true, Limit: report.AtLeast, Bound: 0.5})
	c.turns = 2
	return c
}
