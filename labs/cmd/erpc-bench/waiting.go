package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// waitingCmd runs the modes of package waitlab over UDP on loopback: a server process that waits in
// one of them, and the connections of one loop here.
type waitingCmd struct {
	Conns    string        `default:"1,4,16,64" help:"Connections, at most 64; default ${default}." placeholder:"N,..."`
	Pauses   string        `default:"0,100,300,400" help:"Microseconds of a client between an answer and its next request; default ${default}." placeholder:"US,..."`
	Loops    int           `default:"1" help:"Loops that share the connections, in all modes but BP; default ${default}." placeholder:"N"`
	SpinFor  time.Duration `default:"100us" help:"How long BPEV's worker spins; default ${default}." placeholder:"TIME"`
	Duration time.Duration `default:"500ms" help:"How long each row is measured, after half as much that does not count; default ${default}." placeholder:"TIME"`
	Modes    string        `help:"Which modes; all without it." placeholder:"MODE,..."`
	Rounds   int           `default:"1" help:"Rounds; default ${default}." placeholder:"N"`
	Client   string        `default:"adaptive" enum:"adaptive,spin" help:"Its loop: adaptive or spin."`
	JSON     bool          `name:"json" help:"Print one JSON object."`
	Serve    string        `hidden:"" help:"Be the server, in this mode, with --loops loops."`
}

// Help is shown by --help.
func (waitingCmd) Help() string {
	return `Examples:
  erpc-bench waiting
  erpc-bench waiting --conns 1,16 --pauses 0,300 --duration 2s
  erpc-bench waiting --conns 1 --pauses 100 --modes BPTS,adaptive --rounds 5

Servers on loopback that wait for requests in the ways of "erpc sim waiting". BP:
a spinning loop for each connection. BPTS: spinning loops share them. EVENT: loops
sleep. BPEV: spinning loops hand requests to a worker that spins a while and then
sleeps; it answers through its loop, the only thread that may send. Adaptive: the
library's default. CPU is the server process's. Each response is checked.`
}

// waitingModes are the names of the modes, as in package waitlab.
var waitingModes = []string{"BP", "BPTS", "EVENT", "BPEV", "adaptive"}

const (
	typeWaiting = 1
	mostWaiting = 64
)

// Run implements the subcommand.
func (c *waitingCmd) Run(e *cli.Env) error {
	if c.Serve != "" {
		return c.serve(e)
	}
	conns, err := cli.Numbers("--conns", c.Conns, 1, mostWaiting)
	pauses, err2 := cli.Numbers("--pauses", c.Pauses, 0, 1_000_000)
	if err = errors.Join(err, err2, cli.Between("--loops", c.Loops, 1, mostWaiting)); err != nil {
		return err
	}
	modes := waitingModes
	if c.Modes != "" {
		modes = strings.Split(c.Modes, ",")
	}
	for _, m := range modes {
		if !slices.Contains(waitingModes, m) {
			return cli.Usagef("--modes %q: want some of %v", c.Modes, waitingModes)
		}
	}
	if err := cli.Between("--rounds", c.Rounds, 1, 1000); err != nil {
		return err
	}
	if c.SpinFor < 0 || c.Duration < 10*time.Millisecond {
		return cli.Usagef("--spin-for %v, --duration %v: must be at least 0 and 10ms",
			c.SpinFor, c.Duration)
	}
	var loads []*waitingLoad
	for _, pause := range pauses {
		for _, n := range conns {
			l, err := c.load(e.Ctx, modes, n, pause)
			if err != nil {
				return err
			}
			loads = append(loads, l)
		}
	}
	if c.JSON {
		return json.NewEncoder(e.Out).Encode(waitingReport(loads))
	}
	return printLoads(e.Out, loads)
}

// waiter is the server process.
type waiter struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	addrs []string
}

func (c *waitingCmd) start(mode string, conns int) (*waiter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	loops := c.Loops
	if mode == "BP" {
		loops = conns
	}
	w := &waiter{cmd: exec.Command(self, "waiting", "--serve="+mode,
		"--loops="+strconv.Itoa(loops), "--spin-for="+c.SpinFor.String())}
	w.cmd.Stderr = os.Stderr
	cli.OwnGroup(w.cmd)
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	line, err := w.out.ReadString('\n')
	if w.addrs = strings.Fields(line); err != nil || len(w.addrs) != loops {
		err = errors.Join(fmt.Errorf("the server process did not start: %q", line), err)
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *waiter) stop() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }

// used asks for the CPU time of the process.
func (w *waiter) used() (time.Duration, error) {
	if _, err := io.WriteString(w.in, "\n"); err != nil {
		return 0, err
	}
	line, err := w.out.ReadString('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Duration(n), err
}

// caller is one connection: calls in a closed loop, inside its Loop.
type caller struct {
	b       *callers
	client  *erpc.Client
	request [32]byte
	number  uint64
	begun   monotime.Time
}

// callers are the connections of a run. All fields belong to the loop but for ended.
type callers struct {
	rpc    *erpc.Rpc
	pause  time.Duration
	stop   bool
	counts bool
	took   []time.Duration
	wrong  uint64
	left   int // callers that go on
	err    error
	ended  chan struct{}
}

func (k *caller) next() {
	b := k.b
	if b.stop || b.err != nil {
		if b.left--; b.left == 0 {
			close(b.ended)
		}
		return
	}
	k.number++
	binary.LittleEndian.PutUint64(k.request[:], k.number)
	k.begun = monotime.Now()
	if err := k.client.StartInLoop(typeWaiting, k.request[:], k.done); err != nil {
		b.err = errors.Join(b.err, err)
		k.next()
	}
}

func (k *caller) done(response []byte, err error) {
	b := k.b
	switch {
	case err != nil:
		b.err = errors.Join(b.err, err)
	case !bytes.Equal(response, k.request[:]):
		b.wrong++
	case b.counts:
		b.took = append(b.took, monotime.Now().Sub(k.begun))
	}
	if b.pause == 0 || b.stop || b.err != nil {
		k.next()
		return
	}
	if _, err := b.rpc.AfterFunc(b.pause, k.next); err != nil {
		b.err = err
		k.next()
	}
}

// measure runs one mode at one load.
func (c *waitingCmd) measure(ctx context.Context, mode string, n, pause int) (waitingRow, error) {
	row := waitingRow{Mode: mode, Conns: n, PauseUs: pause}
	w, err := c.start(mode, n)
	if err != nil {
		return row, err
	}
	err = c.call(ctx, w, &row)
	return row, errors.Join(err, w.stop())
}

func (c *waitingCmd) call(ctx context.Context, w *waiter, row *waitingRow) (err error) {
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return err
	}
	var cfg erpc.Config
	if c.Client == "spin" {
		cfg.Wait = erpc.WaitSpin
	}
	loop, err := erpc.NewLoop(tr, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, loop.Close()) }()
	b := &callers{rpc: loop.Rpcs()[0], pause: time.Duration(row.PauseUs) * time.Microsecond,
		left: row.Conns, ended: make(chan struct{})}
	for i := range row.Conns {
		k := &caller{b: b}
		binary.LittleEndian.PutUint64(k.request[8:], uint64(i))
		if k.client, err = loop.Dial(ctx, w.addrs[i%len(w.addrs)]); err != nil {
			return err
		}
		if err := b.rpc.Post(func(*erpc.Rpc) { k.next() }); err != nil {
			return err
		}
	}
	if err := c.window(b, w, row); err != nil {
		return err
	}
	slices.Sort(b.took)
	if count := len(b.took); count > 0 {
		row.P50, row.P99 = micros(b.took[count/2]), micros(b.took[count*99/100])
	}
	if row.Wrong = b.wrong; b.wrong > 0 {
		return fmt.Errorf("%d wrong responses", b.wrong)
	}
	return b.err
}

// window warms up, counts for the time of a row, ends the calls, and measures the idle server.
func (c *waitingCmd) window(b *callers, w *waiter, row *waitingRow) error {
	set := func(f func()) error { return b.rpc.Post(func(*erpc.Rpc) { f() }) }
	time.Sleep(c.Duration / 2)
	before, err := w.used()
	begun := monotime.Now()
	if err = errors.Join(err, set(func() { b.counts = true })); err != nil {
		return err
	}
	time.Sleep(c.Duration)
	if err := set(func() { b.counts, b.stop = false, true }); err != nil {
		return err
	}
	took := monotime.Now().Sub(begun)
	after, err := w.used()
	if err != nil {
		return err
	}
	<-b.ended
	row.Rate = float64(len(b.took)) / took.Seconds()
	row.CPU = (after - before).Seconds() / took.Seconds()
	time.Sleep(c.Duration / 10)
	quiet, err := w.used()
	begun = monotime.Now()
	time.Sleep(c.Duration / 2)
	end, err2 := w.used()
	row.Idle = (end - quiet).Seconds() / monotime.Now().Sub(begun).Seconds()
	return errors.Join(err, err2)
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
