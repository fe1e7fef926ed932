package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type barsCmd struct {
	Rate float64       `default:"20000" help:"Calls per second; default ${default}." placeholder:"N"`
	TTL  int           `default:"5" name:"ttl" help:"Seconds that a lease lasts; default ${default}." placeholder:"N"`
	Away time.Duration `default:"1m" help:"How long etcd is away; at least 1s. Default ${default}." placeholder:"TIME"`
	Only string        `help:"Only these of kill, silent, etcd, roll, add, zone; default all." placeholder:"NAME,..."`
}

// bars lists the measurements in their order.
var bars = []struct {
	name string
	run  func(*measured) error
}{
	{"kill", (*measured).kill}, {"silent", (*measured).silent}, {"etcd", (*measured).etcd},
	{"roll", (*measured).roll}, {"add", (*measured).add}, {"zone", (*measured).zone},
}

// barNames has the names of bars.
func barNames() (list []string) {
	for _, b := range bars {
		list = append(list, b.name)
	}
	return list
}

// measured is a fleet of ten servers in two zones under load, and what was seen of it. The client
// is in zone a.
type measured struct {
	*fleet
	cmd    *barsCmd
	rows   [][3]string // what, figure, bar
	before totals      // at the last rest or calls
}

// Help is shown by --help.
func (barsCmd) Help() string {
	return `Ten servers in two zones, a client in one of them, calls that may be repeated.

Examples:
  erpc-cluster bars
  erpc-cluster bars --only kill,silent
  erpc-cluster bars --only etcd --away 10s`
}

// Run implements the subcommand.
func (c *barsCmd) Run(e *cli.Env) (err error) {
	only := strings.FieldsFunc(c.Only, func(r rune) bool { return r == ',' })
	for _, name := range only {
		if !slices.Contains(barNames(), name) {
			return cli.Usagef("--only %q: want some of %s", name, strings.Join(barNames(), ", "))
		}
	}
	if c.Away < time.Second || c.Away > time.Hour {
		return cli.Usagef("--away %v: must be 1s to 1h", c.Away)
	}
	f, err := startFleet(e, flags{Nodes: 10, Zones: 2, Rate: c.Rate, TTL: c.TTL})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	m := &measured{fleet: f, cmd: c}
	for _, b := range bars {
		if len(only) > 0 && !slices.Contains(only, b.name) {
			continue
		}
		if err = m.rest(time.Second); err == nil {
			fmt.Fprintln(e.Err, b.name)
			err = b.run(m)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if e.Ctx.Err() != nil {
			return cli.ErrStopped
		}
	}
	t := cli.NewTable(e.Out)
	fmt.Fprintln(t, "what\tfigure\tbar")
	for _, r := range m.rows {
		fmt.Fprintf(t, "%s\t%s\t%s\n", r[0], r[1], r[2])
	}
	return t.Flush()
}

// row notes a figure.
func (m *measured) row(what, bar, figure string, args ...any) {
	m.rows = append(m.rows, [3]string{what, fmt.Sprintf(figure, args...), bar})
}

// rest lets the load go on for a while; calls counts from then on.
func (m *measured) rest(d time.Duration) error {
	time.Sleep(d)
	m.before = m.load.sums()
	return m.await("all nodes in the view", m.current)
}

// current reports whether the view has the servers that there are, and no others.
func (m *measured) current() bool {
	v := m.names.View()
	return v.Err == nil && len(v.Entries) == len(m.nodes) &&
		!slices.ContainsFunc(m.nodes, func(n *node) bool { return !m.listedIn(v, n) })
}

// listedIn reports whether a view has a server.
func (m *measured) listedIn(v cluster.View, n *node) bool {
	return slices.ContainsFunc(v.Entries, func(e cluster.Entry) bool { return e.Addr == n.addr })
}

// await waits until something is so.
func (m *measured) await(what string, is func() bool) error {
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within a minute: %s", what)
		}
	}
	return nil
}

// state returns what the Pool says of a server.
func (m *measured) state(n *node) erpc.ServerState {
	for _, s := range m.pool.Servers() {
		if s.Addr == n.addr {
			return s.State
		}
	}
	return erpc.ServerEjected // it is not in the Pool
}

// first returns a node of a zone.
func (m *measured) first(zone string) *node {
	i := slices.IndexFunc(m.nodes, func(n *node) bool { return n.zone == zone })
	return m.nodes[i]
}

// verdict has something done to a server. It returns how long the Pool took to give that no more
// calls, and what calls saw that began later.
func (m *measured) verdict(do string, n *node) (took time.Duration, later later, err error) {
	at, came := time.Now(), make(chan error, 1)
	go func() {
		came <- m.await("the Pool's verdict on "+n.name, func() bool {
			return m.state(n) != erpc.ServerReady
		})
		m.load.mark()
	}()
	if err = m.do(do + " " + n.name); err != nil {
		return 0, later, err
	}
	if err = <-came; err != nil {
		return 0, later, err
	}
	took = time.Since(at)
	time.Sleep(500 * time.Millisecond)
	return took, m.load.later(), nil
}

// kill measures a server's death.
func (m *measured) kill() error {
	took, later, err := m.verdict("kill", m.first("a"))
	if err != nil {
		return err
	}
	m.row("kill -9: the Pool's verdict", "as in the failure matrix: 8 to 21 ms", "%.1f ms", ms(took))
	m.row("first good call after it", "200 ms", "%.2f ms", ms(later.good))
	m.row("calls lost that began after it", "0", "%d", later.failed)
	return m.do("add a")
}

// silent measures a server that stands still. Clients see the same of a machine that has lost its
// link.
func (m *measured) silent() error {
	n := m.first("a")
	at := time.Now()
	took, later, err := m.verdict("stop", n)
	if err != nil {
		return err
	}
	if err = m.await("the end of the entry", func() bool {
		return !m.listedIn(m.names.View(), n)
	}); err != nil {
		return err
	}
	gone := time.Since(at)
	m.row("SIGSTOP: the Pool's verdict", "as in the failure matrix: 18 to 24 ms", "%.1f ms", ms(took))
	m.row("first good call after it", "200 ms", "%.2f ms", ms(later.good))
	m.row("calls lost that began after it", "0", "%d", later.failed)
	m.row("its entry goes", fmt.Sprintf("the lease, %d s, and what etcd is late", m.TTL), "%.1f s",
		gone.Seconds())
	if err = m.do("cont " + n.name); err != nil {
		return err
	}
	return m.await("it has registered anew", m.current)
}

// etcd measures etcd's absence.
func (m *measured) etcd() error {
	if err := m.do("etcd stop"); err != nil {
		return err
	}
	time.Sleep(m.cmd.Away)
	unknown := m.names.View().Err != nil
	if err := m.do("etcd start"); err != nil {
		return err
	}
	at := time.Now()
	if err := m.await("etcd in the view", m.current); err != nil {
		return err
	}
	took := time.Since(at)
	if err := m.do("add a"); err != nil {
		return err
	}
	if err := m.await("a server that came later in the view", m.current); err != nil {
		return err
	}
	if err := m.do("drain " + m.nodes[len(m.nodes)-1].name); err != nil {
		return err
	}
	calls, lost := m.calls()
	m.row(fmt.Sprintf("etcd away for %v: calls lost, of %d", m.cmd.Away, calls), "0", "%d", lost)
	m.row("the view said so; current again after", "right", "%v; %.1f s", unknown, took.Seconds())
	return nil
}

// roll measures that all servers are replaced, one by one.
func (m *measured) roll() error {
	if err := m.do("roll"); err != nil {
		return err
	}
	uneven := m.uneven("a")
	calls, lost := m.calls()
	m.row(fmt.Sprintf("rolling restart of %d: calls lost, of %d", len(m.nodes), calls), "0", "%d",
		lost)
	m.row("load after 2 s: the server farthest from its part", "10 %", "%.1f %%", uneven)
	return nil
}

// add measures that a server comes.
func (m *measured) add() error {
	if err := m.do("add a"); err != nil {
		return err
	}
	uneven := m.uneven("a")
	_, lost := m.calls()
	m.row("a server is added: calls lost", "0", "%d", lost)
	m.row("load after 2 s: the server farthest from its part", "10 %", "%.1f %%", uneven)
	return nil
}

// zone measures that the client's zone is lost and comes back.
func (m *measured) zone() error {
	nodes := 0
	for _, n := range m.nodes {
		if n.zone == "a" {
			nodes++
		}
	}
	if err := m.do("zone a"); err != nil {
		return err
	}
	if err := m.await("spill-over", func() bool {
		return !slices.ContainsFunc(m.pool.Servers(), func(s erpc.ServerStatus) bool {
			i := slices.IndexFunc(m.nodes, func(n *node) bool { return n.addr == s.Addr })
			return s.State == erpc.ServerReady && i < 0
		})
	}); err != nil {
		return err
	}
	m.load.mark()
	uneven := m.uneven("b")
	m.row("a zone of the client's is lost: calls lost that began after the verdicts", "0", "%d",
		m.load.later().failed)
	m.row("spill-over, load after 2 s: the server farthest from its part", "10 %", "%.1f %%", uneven)
	m.calls()
	for range nodes {
		if err := m.do("add a"); err != nil {
			return err
		}
	}
	uneven = m.uneven("a")
	_, lost := m.calls()
	m.row("the zone is back: calls lost", "0", "%d", lost)
	m.row("calls are back, load after 2 s: the server farthest from its part", "10 %", "%.1f %%",
		uneven)
	return nil
}

// uneven returns by how much of its part of the calls a server of a zone has more or less than
// that, the worst one, in percent, from 2 s from now on. The part of those of other zones is
// nothing.
func (m *measured) uneven(zone string) (worst float64) {
	time.Sleep(2 * time.Second)
	m.load.take()
	time.Sleep(2 * time.Second)
	seen := m.load.take()
	sum, nodes := 0.0, 0.0
	for _, n := range m.nodes {
		if n.zone == zone {
			nodes++
		}
	}
	for _, a := range seen.answers {
		sum += float64(a.count)
	}
	for _, n := range m.nodes {
		a := seen.answers[n.name]
		switch {
		case n.zone != zone && a != nil:
			worst = max(worst, 100*float64(a.count)/(sum/nodes))
		case n.zone != zone:
		case a == nil:
			worst = max(worst, 100)
		default:
			worst = max(worst, 100*math.Abs(float64(a.count)/(sum/nodes)-1))
		}
	}
	return worst
}

// calls returns how many calls ended since the last rest or calls, and how many of them failed.
func (m *measured) calls() (all, lost int64) {
	now := m.load.sums()
	all, lost = now.Calls-m.before.Calls, now.lost()-m.before.lost()
	m.before = now
	return all, lost
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
