package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// PingCmd is the subcommand ping.
type PingCmd struct {
	NetFlags   `group:"net"`
	FaultFlags `group:"faults"`
	Addr       string        `arg:"" help:"Server, HOST:PORT."`
	Count      int           `short:"c" help:"End after so many RPCs; 0: go on until Ctrl-C." placeholder:"N"`
	Interval   time.Duration `short:"i" default:"1s" help:"Time from one RPC to the next; default ${default}." placeholder:"TIME"`
	Timeout    time.Duration `short:"W" default:"1s" help:"Deadline of an RPC; default ${default}." placeholder:"TIME"`
	Size       int           `short:"s" default:"32" help:"Bytes in request and response; default ${default}." placeholder:"BYTES"`
}

// Help is shown by --help.
func (PingCmd) Help() string {
	return `Examples:
  erpc ping 10.0.0.1:31850
  erpc ping 127.0.0.1:31850 --count 5 --interval 100ms --json
  sudo erpc ping 10.0.0.1:31850 --transport afpacket   the server's may be udp, afpacket or afxdp
  erpc ping 10.0.0.1:31850 --count 3 --pcap ping.pcap && erpc decode ping.pcap

Exit status is 1 if no RPC was answered. When the server goes away or restarts,
ping says so, and opens a new session when it can.`
}

// PingResult is printed by ping with --json.
type PingResult struct {
	Ping        string  `json:"ping"`
	Transport   string  `json:"transport"`
	Size        int     `json:"size"`
	Sent        int     `json:"sent"`
	Received    int     `json:"received"`
	Reconnects  int     `json:"reconnects"`
	Min         float64 `json:"min_us"`
	Mean        float64 `json:"mean_us"`
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	Max         float64 `json:"max_us"`
	Duration    float64 `json:"duration_s"`
	Interrupted bool    `json:"interrupted,omitempty"`
}

// pinger is a ping under way; it runs in the worker's thread.
type pinger struct {
	*PingCmd
	lines io.Writer
	hist  *hdrhistogram.Histogram
	res   PingResult
}

// Run implements the subcommand.
func (c *PingCmd) Run(e *Env) error {
	err := errors.Join(c.NetFlags.Check(), c.FaultFlags.check(), cli.Positive("--count", c.Count, 0),
		cli.Positive("--size", c.Size, 0))
	switch {
	case err != nil:
		return err
	case c.medium().checkAddr("address", c.Addr) != nil:
		return c.medium().checkAddr("address", c.Addr)
	case c.Size > maxMessage:
		return cli.Usagef("--size %d: must be at most %d", c.Size, maxMessage)
	case c.Interval < 0:
		return cli.Usagef("--interval %v: must not be negative", c.Interval)
	case c.Timeout <= 0:
		return cli.Usagef("--timeout %v: must be more than 0", c.Timeout)
	}
	if err := c.startCapture(e); err != nil {
		return err
	}
	c.tune(1)
	stopProfile, err := cli.StartProfile(c.Profile)
	if err != nil {
		return err
	}
	defer stopProfile()
	if c.Pin == "auto" {
		c.Pin = "none" // a ping now and then is not worth a core
	}
	t, err := openTeam(e, &c.NetFlags, &c.FaultFlags, peer{addr: c.Addr}, 1)
	if err != nil {
		return err
	}
	p := &pinger{PingCmd: c, lines: e.Out, hist: newHistogram(),
		res: PingResult{Ping: c.Addr, Transport: c.Transport, Size: c.Size}}
	if c.JSON {
		p.lines = e.Err
	}
	begin := monotime.Now()
	if err = errors.Join(t.workers[0].do(p.loop), t.close()); err != nil {
		return err
	}
	p.res.Duration = monotime.Now().Sub(begin).Seconds()
	p.res.Interrupted = e.Ctx.Err() != nil
	if err := p.summary(e.Out); err != nil {
		return err
	}
	if p.res.Received == 0 {
		return fmt.Errorf("%s answered none of %d RPCs", c.Addr, p.res.Sent)
	}
	return nil
}

// loop sends until the count is reached or Ctrl-C comes.
func (p *pinger) loop(w *worker) error {
	body := make([]byte, p.Size)
	next := monotime.Now()
	for p.Count == 0 || p.res.Sent < p.Count {
		if w.ep.stop.Load() {
			return nil
		}
		if err := p.once(w, body); err != nil {
			return err
		}
		next = max(next.Add(p.Interval), monotime.Now())
		if p.res.Sent != p.Count {
			if err := w.idleUntil(next); err != nil {
				return err
			}
		}
	}
	return nil
}

// once makes one RPC and prints its line.
func (p *pinger) once(w *worker, body []byte) error {
	p.res.Sent++
	if why := w.control.Err(); why != nil {
		fmt.Fprintf(p.lines, "session with %s ended: %s; connecting again\n", w.addr, cli.OneLine(why))
		s, err := w.dial()
		switch {
		case errors.Is(err, cli.ErrStopped):
			p.res.Sent--
			return nil
		case err != nil:
			fmt.Fprintf(p.lines, "seq=%d not sent: %s\n", p.res.Sent, cli.OneLine(err))
			return nil
		}
		w.control = s
		p.res.Reconnects++
		fmt.Fprintf(p.lines, "new session with %s\n", w.addr)
	}
	begin := monotime.Now()
	resp, err := w.call(TypeEcho, body, p.Timeout)
	took := monotime.Now().Sub(begin)
	if err == nil && len(resp) != len(body) {
		err = fmt.Errorf("%d bytes came back instead of %d", len(resp), len(body))
	}
	if err != nil {
		fmt.Fprintf(p.lines, "seq=%d failed: %s\n", p.res.Sent, cli.OneLine(err))
		return nil
	}
	p.res.Received++
	_ = p.hist.RecordValue(max(1, int64(took)))
	fmt.Fprintf(p.lines, "%d bytes from %s: seq=%d time=%.1f us\n",
		len(resp), w.addr, p.res.Sent, float64(took)/1e3)
	return nil
}

// idleUntil keeps the session alive until the given time or Ctrl-C.
func (w *worker) idleUntil(end monotime.Time) error {
	return runFor(w.ep.rpc, end.Sub(monotime.Now()), w.ep.stop.Load)
}

func (p *pinger) summary(out io.Writer) error {
	r := &p.res
	if p.hist.TotalCount() > 0 {
		us := func(q float64) float64 { return float64(p.hist.ValueAtQuantile(q)) / 1e3 }
		r.Min, r.Mean, r.P50, r.P99, r.Max = float64(p.hist.Min())/1e3, p.hist.Mean()/1e3, us(50), us(99),
			float64(p.hist.Max())/1e3
	}
	if p.JSON {
		return json.NewEncoder(out).Encode(r)
	}
	fmt.Fprintf(out, "--- %s: %d sent, %d answered, %d new sessions\n", r.Ping, r.Sent, r.Received,
		r.Reconnects)
	if r.Received == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "min %.1f us, p50 %.1f, mean %.1f, p99 %.1f, max %.1f\n", r.Min, r.P50,
		r.Mean, r.P99, r.Max)
	return err
}
