package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// DemoCmd is the subcommand demo.
type DemoCmd struct {
	NetFlags `group:"net"`
	Each     time.Duration `default:"700ms" help:"How long each of the lines of the table runs; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (DemoCmd) Help() string {
	return `Examples:
  erpc demo
  erpc demo --json`
}

// demoRow is one line of the demonstration.
type demoRow struct {
	What   string  `json:"what"`
	Rpcs   uint64  `json:"rpcs"`
	Rps    float64 `json:"rps"`
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
	Gbps   float64 `json:"gbps,omitempty"`
	Errors uint64  `json:"errors"`
}

// DemoResult is printed by the demonstration with --json.
type DemoResult struct {
	Demo        []demoRow `json:"demo"`
	Transport   string    `json:"transport"`
	Addr        string    `json:"addr"`
	Seconds     float64   `json:"duration_s"`
	Interrupted bool      `json:"interrupted,omitempty"`
}

// demoStep is one load to show.
type demoStep struct {
	what  string
	shape Shape
}

const demoSleep = 1000 // us

var demoSteps = []demoStep{
	{"32 B, one at a time", Shape{Size: 32, RespSize: 32, Window: 1, Batch: 1, Sessions: 1}},
	{"32 B, 60 in flight", Shape{Size: 32, RespSize: 32, Window: 60, Batch: 1, Sessions: 8}},
	{"1 MiB requests, one at a time",
		Shape{Size: 1 << 20, RespSize: 32, Window: 1, Batch: 1, Sessions: 1}},
	{"8 MiB requests, one at a time",
		Shape{Size: 8 << 20, RespSize: 32, Window: 1, Batch: 1, Sessions: 1}},
	{"8 MiB responses, one at a time",
		Shape{Size: 32, RespSize: 8 << 20, Window: 1, Batch: 1, Sessions: 1}},
	{"background handlers of 1 ms, 8 in flight", Shape{Size: 32, RespSize: 32, Window: 8, Batch: 1,
		Sessions: 1, reqType: TypeWork, arg: demoSleep}},
}

// Run implements the subcommand.
func (c *DemoCmd) Run(e *Env) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Each < time.Millisecond {
		return cli.Usagef("--each %v: must be at least 1ms", c.Each)
	}
	if err := c.startCapture(e); err != nil {
		return err
	}
	if err := c.checkVeth(false, ""); err != nil {
		return err
	}
	if err := c.layLink(e, false, ""); err != nil {
		return err
	}
	c.endpoints = 2 // the table's and the Client's
	c.tune(1)
	begin := monotime.Now()
	t, err := openTeam(e, &c.NetFlags, &FaultFlags{}, peer{}, 1)
	if err != nil {
		return err
	}
	res := DemoResult{Transport: c.Transport, Addr: t.workers[0].addr}
	fmt.Fprintf(e.Err, "server process %d serves on %s\n", t.server.PID(), res.Addr)
	err = c.steps(e, t, &res)
	if err == nil && !t.stop.Load() {
		var row demoRow
		if row, err = c.goroutines(e.Ctx, res.Addr); err == nil || errors.Is(err, erpc.ErrCancelled) {
			res.Demo, err = append(res.Demo, row), nil
		}
	}
	err = errors.Join(err, t.close())
	res.Seconds = monotime.Now().Sub(begin).Seconds()
	res.Interrupted = e.Ctx.Err() != nil
	if err != nil {
		return err
	}
	if len(res.Demo) == 0 {
		return cli.ErrStopped
	}
	return res.print(e, c.JSON)
}

// steps runs the loads of the table.
func (c *DemoCmd) steps(e *Env, t *team, res *DemoResult) error {
	for _, s := range demoSteps {
		if t.stop.Load() {
			return nil
		}
		fmt.Fprintln(e.Err, "  "+s.what)
		var row demoRow
		if err := t.workers[0].do(func(w *worker) (err error) {
			row, err = w.show(s, c.Each)
			return err
		}); err != nil {
			return err
		}
		if row.Rpcs > 0 {
			res.Demo = append(res.Demo, row)
		}
	}
	return nil
}

// show runs one load on sessions of its own.
func (w *worker) show(s demoStep, d time.Duration) (row demoRow, err error) {
	if err = w.prepare(s.shape); err != nil {
		return row, err
	}
	l := w.ep.load
	if _, err = w.load(d/10, false); err != nil {
		return row, err
	}
	r, err := w.load(d, false)
	row = demoRow{What: s.what, Rpcs: r.done, Rps: r.rate, Errors: r.errs}
	row.P50, row.P99 = float64(l.hist.ValueAtQuantile(50))/1e3, float64(l.hist.ValueAtQuantile(99))/1e3
	if n := max(s.shape.Size, s.shape.RespSize); n >= 1<<20 {
		row.Gbps = r.rate * float64(n) * 8 / 1e9
	}
	l.free()
	w.ep.load = nil
	return row, err
}

const demoCallers = 64

// goroutines shows erpc.Client: calls from many goroutines, each answer compared.
func (c *DemoCmd) goroutines(ctx context.Context, addr string) (row demoRow, err error) {
	local, err := c.Near(addr)
	if err != nil {
		return row, err
	}
	tr, err := c.Listen(local)
	if err != nil {
		return row, err
	}
	cl, err := erpc.Dial(ctx, tr, addr, c.Config())
	if err != nil {
		return row, err
	}
	row.What = fmt.Sprintf("Client.Call from %d goroutines, 32 B", demoCallers)
	var stop atomic.Bool
	timer := time.AfterFunc(c.Each, func() { stop.Store(true) })
	defer timer.Stop()
	hist := newHistogram()
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := monotime.Now()
	for i := range demoCallers {
		wg.Go(func() {
			request := bytes.Repeat([]byte{byte(i)}, 32)
			for first := true; first || !stop.Load(); first = false {
				at := monotime.Now()
				resp, cerr := cl.Call(ctx, TypeEcho, request)
				took := monotime.Now().Sub(at)
				if cerr == nil && !bytes.Equal(request, resp) {
					cerr = fmt.Errorf("call of goroutine %d came back changed", i)
				}
				mu.Lock()
				if cerr != nil {
					err = cerr
					stop.Store(true)
				} else {
					row.Rpcs++
					_ = hist.RecordValue(max(1, int64(took)))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	row.Rps = float64(row.Rpcs) / monotime.Now().Sub(begin).Seconds()
	row.P50, row.P99 = float64(hist.ValueAtQuantile(50))/1e3, float64(hist.ValueAtQuantile(99))/1e3
	return row, errors.Join(err, cl.Close())
}

func (r *DemoResult) print(e *Env, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(e.Out).Encode(r)
	}
	t := cli.NewTable(e.Out)
	fmt.Fprintln(t, "RPC\tended\terrors\tp50\tp99\trate\tgoodput")
	for _, row := range r.Demo {
		goodput := ""
		if row.Gbps > 0 {
			goodput = fmt.Sprintf("%.1f Gbit/s", row.Gbps)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%.1f us\t%.1f us\t%s/s\t%s\n", row.What, row.Rpcs, row.Errors,
			row.P50, row.P99, cli.CountText(row.Rps), goodput)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	note := ""
	if r.Interrupted {
		note = "; interrupted"
	}
	_, err := fmt.Fprintf(e.Out, "measured in two processes over %s on this machine, %.1f s%s\n",
		r.Transport, r.Seconds, note)
	return err
}
