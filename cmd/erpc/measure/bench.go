package measure

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/wire"
)

// LoadFlags are the flags of everything that puts a load on a server.
type LoadFlags struct {
	NetFlags   `group:"net"`
	FaultFlags `group:"faults"`
	vethFlags
	Threads  int `default:"1" help:"Client threads; default ${default}." placeholder:"N"`
	Sessions int `help:"Sessions per thread; 0: as many as the window needs." placeholder:"N"`
}

// BenchFlags are the flags of a bench of one thing.
type BenchFlags struct {
	LoadFlags
	outFlags
	Addr     string        `help:"Server to measure against; without it a server process is started on loopback, or with --veth or a transport below IP in a network namespace." placeholder:"HOST:PORT"`
	Duration time.Duration `default:"5s" help:"How long to measure, default ${default}; with --raw the raw rounds come on top." placeholder:"TIME"`
	Raw      bool          `help:"Also measure the raw transport, in turns with the RPCs."`
	Rounds   int           `default:"7" help:"Turns of each kind with --raw or --versus, whose medians are reported; default ${default}." placeholder:"N"`
}

// LatencyCmd is the subcommand bench latency.
type LatencyCmd struct {
	BenchFlags
	Size     int `default:"32" help:"Bytes in a request; default ${default}." placeholder:"BYTES"`
	RespSize int `default:"32" help:"Bytes in a response; default ${default}." placeholder:"BYTES"`
}

// Help is shown by --help.
func (LatencyCmd) Help() string {
	return `Examples:
  erpc bench latency --raw
  erpc bench latency --plot latency.svg --hdr latency.hlog
  erpc bench latency --addr 10.0.0.1:31850 --size 1024 --duration 10s --json
  erpc bench latency --wait adaptive --loss 0.01
  sudo erpc bench latency --transport afpacket --raw       or afxdp
  sudo erpc bench latency --transport udp --veth --raw     kernel UDP over the same kind of link`
}

// Run implements the subcommand.
func (c *LatencyCmd) Run(e *Env) error {
	b := bench{name: "latency", flags: &c.BenchFlags,
		shape: Shape{Size: c.Size, RespSize: c.RespSize, Window: 1, Batch: 1}}
	return b.run(e)
}

// RateCmd is the subcommand bench rate.
type RateCmd struct {
	BenchFlags
	Size      int    `default:"32" help:"Bytes in a request; default ${default}." placeholder:"BYTES"`
	RespSize  int    `default:"32" help:"Bytes in a response; default ${default}." placeholder:"BYTES"`
	Window    int    `default:"60" help:"RPCs in flight per thread; default ${default}." placeholder:"N"`
	Batch     int    `default:"1" help:"RPCs issued together; default ${default}." placeholder:"N"`
	Symmetric bool   `help:"Every thread is client and server; each RPC counts once."`
	Versus    string `help:"Also measure with this congestion control, in turns with that of --cc: timely, dcqcn, swift, cubic or none; or with metrics or trace." placeholder:"NAME"`
}

// Help is shown by --help.
func (RateCmd) Help() string {
	return `Examples:
  erpc bench rate --raw
  erpc bench rate --symmetric --window 60 --batch 3
  erpc bench rate --versus none            what congestion control costs
  erpc bench rate --versus metrics         ... snapshots, ten a second; trace: recorded packets
  erpc bench rate --cc none --link-rate 25e9 --json
  erpc bench rate --addr 10.0.0.1:31850 --threads 4 --pin 0,1,2,3`
}

// Run implements the subcommand.
func (c *RateCmd) Run(e *Env) error {
	b := bench{name: "rate", flags: &c.BenchFlags, symmetric: c.Symmetric,
		shape: Shape{Size: c.Size, RespSize: c.RespSize, Window: c.Window, Batch: c.Batch}}
	if c.Versus != "" {
		return b.runVersus(e, c.Versus)
	}
	return b.run(e)
}

// BandwidthCmd is the subcommand bench bandwidth.
type BandwidthCmd struct {
	BenchFlags
	Size     int  `default:"8388608" help:"Bytes in a request; default ${default}." placeholder:"BYTES"`
	RespSize int  `default:"32" help:"Bytes in a response; default ${default}." placeholder:"BYTES"`
	Window   int  `default:"1" help:"RPCs in flight per thread; default ${default}." placeholder:"N"`
	Batch    int  `default:"1" help:"RPCs issued together; default ${default}." placeholder:"N"`
	Reverse  bool `help:"Small requests, large responses: --size and --resp-size change places."`
}

// Help is shown by --help.
func (BandwidthCmd) Help() string {
	return `Examples:
  erpc bench bandwidth --raw
  erpc bench bandwidth --mtu 8952 --credits 128
  erpc bench bandwidth --reverse --size 1048576 --window 4`
}

// Run implements the subcommand.
func (c *BandwidthCmd) Run(e *Env) error {
	b := bench{name: "bandwidth", flags: &c.BenchFlags,
		shape: Shape{Size: c.Size, RespSize: c.RespSize, Window: c.Window, Batch: c.Batch}}
	if c.Reverse {
		b.shape.Size, b.shape.RespSize = c.RespSize, c.Size
	}
	return b.run(e)
}

// bench is one measurement.
type bench struct {
	name      string
	flags     *BenchFlags
	shape     Shape
	symmetric bool

	mu      sync.Mutex
	rounds  []sum // one per round
	raws    []sum
	plains  []sum
	hist    *hdrhistogram.Histogram
	hists   []*hdrhistogram.Histogram // one per round
	line    timeline
	begunAt time.Time
	rawEnds map[*worker]*rawClient
	cpu     time.Duration
	resent  uint64
	mtu     int
	credits int
	way     string  // what transport auto chose
	cores   float64 // round trip of a cache line between client and server, ns
}

// sum is one round over all threads.
type sum struct {
	round
	threads int
}

func (s *sum) add(r round) {
	s.done += r.done
	s.errs += r.errs
	s.elapsed = max(s.elapsed, r.elapsed)
	s.rate += r.rate
	s.p50 += r.p50
	s.p99 += r.p99
	s.threads++
}

// average makes means over the threads of what add has added up.
func (s *sum) average() {
	s.p50 /= float64(max(1, s.threads))
	s.p99 /= float64(max(1, s.threads))
}

func (b *bench) check() error {
	f, s := b.flags, &b.shape
	if f.Wait == "" {
		f.Wait = "spin"
	}
	err := errors.Join(f.NetFlags.Check(), f.FaultFlags.check(), f.outFlags.check(),
		cli.Positive("--threads", f.Threads, 1), cli.Positive("--sessions", f.Sessions, 0),
		cli.Positive("--size", s.Size, 0), cli.Positive("--resp-size", s.RespSize, 0),
		cli.Positive("--window", s.Window, 1),
		cli.Positive("--batch", s.Batch, 1), cli.Positive("--rounds", f.Rounds, 1))
	switch {
	case err != nil:
		return err
	case f.Addr != "" && f.medium().checkAddr("--addr", f.Addr) != nil:
		return f.medium().checkAddr("--addr", f.Addr)
	case f.checkVeth(f.Veth, f.Addr) != nil:
		return f.checkVeth(f.Veth, f.Addr)
	case s.Size > maxMessage || s.RespSize > maxMessage:
		return cli.Usagef("--size %d, --resp-size %d: must be at most %d", s.Size, s.RespSize,
			maxMessage)
	case s.Size < 4 && s.RespSize != s.Size:
		return cli.Usagef("--size %d: must be at least 4 unless --resp-size is the same", s.Size)
	case s.Batch > s.Window:
		return cli.Usagef("--batch %d: must not exceed --window %d", s.Batch, s.Window)
	case s.Window > 1<<16:
		return cli.Usagef("--window %d: must be at most %d", s.Window, 1<<16)
	case f.Duration < time.Millisecond:
		return cli.Usagef("--duration %v: must be at least 1ms", f.Duration)
	}
	s.Sessions = f.Sessions
	if s.Sessions == 0 {
		slots := f.Slots
		if slots == 0 {
			slots = 8
		}
		s.Sessions = (s.Window + slots - 1) / slots
	}
	return nil
}

// run measures and prints.
func (b *bench) run(e *Env) error {
	if err := b.check(); err != nil {
		return err
	}
	if err := b.flags.startCapture(e); err != nil {
		return err
	}
	if err := b.flags.layLink(e, b.flags.Veth, b.flags.Addr); err != nil {
		return err
	}
	if b.flags.endpoints = b.flags.Threads; b.flags.Raw {
		b.flags.endpoints *= 2
	}
	b.flags.tune(b.flags.Threads)
	stopProfile, err := cli.StartProfile(b.flags.Profile)
	if err != nil {
		return err
	}
	b.cores = b.flags.coreDistance(b.flags.Threads)
	t, err := openTeam(e, &b.flags.NetFlags, &b.flags.FaultFlags, peer{addr: b.flags.Addr},
		b.flags.Threads, b.serverFlags()...)
	if err != nil {
		stopProfile()
		return err
	}
	err = b.measure(e, t)
	stopProfile()
	err = errors.Join(err, b.closeRaw(), t.close())
	return b.report(e, err)
}

// report prints what was measured, also if err or Ctrl-C cut it short, and returns err.
func (b *bench) report(e *Env, err error) error {
	interrupted := e.Ctx.Err() != nil
	if len(b.rounds) == 0 || b.total() == 0 {
		if interrupted && err == nil {
			err = cli.ErrStopped
		}
		return err
	}
	res := b.result()
	res.Interrupted = interrupted
	if err != nil && !interrupted {
		res.Failed = cli.OneLine(err)
	}
	err = errors.Join(err, b.write(&b.flags.outFlags, res))
	return errors.Join(err, res.print(e.Out, b.flags.JSON))
}

// serverFlags are given by the bench to a server process beside netFlags.
func (b *bench) serverFlags() (list []string) {
	if b.flags.Raw {
		list = append(list, "--raw")
	}
	if b.symmetric {
		list = append(list, "--symmetric")
	}
	return list
}

// warmUp opens the sessions and runs a round that does not count.
func (b *bench) warmUp(t *team, d time.Duration) error {
	b.hist = newHistogram()
	if err := t.each(func(w *worker) error { return w.prepare(b.shape) }); err != nil {
		return err
	}
	first := t.workers[0].ep.load.sessions[0]
	p := first.Params()
	b.way = b.flags.wayTo(first.Peer())
	b.mtu, b.credits = p.PerPacket+wire.HeaderSize, first.Window()
	_, err := b.rpcRound(t, min(d, 300*time.Millisecond))
	b.rounds, b.hists, b.line, b.cpu, b.resent = nil, nil, timeline{}, 0, 0
	b.begunAt = time.Now()
	b.hist.Reset()
	return err
}

// measure warms up and runs all rounds.
func (b *bench) measure(e *Env, t *team) error {
	fmt.Fprintf(e.Err, "%s: connecting to %s\n", b.name, t.workers[0].addr)
	if err := b.warmUp(t, b.flags.Duration/10); err != nil {
		return err
	}
	rounds := 1
	if b.flags.Raw {
		rounds = b.flags.Rounds
	}
	d := b.flags.Duration / time.Duration(rounds)
	fmt.Fprintf(e.Err, "measuring for %v\n", b.flags.Duration)
	for i := 0; i < rounds && (i == 0 || !t.stop.Load()); i++ {
		s, err := b.rpcRound(t, d)
		if err != nil {
			return err
		}
		if rounds > 1 {
			fmt.Fprintf(e.Err, "round %d of %d: %s/s", i+1, rounds, cli.CountText(s.rate))
		}
		if b.flags.Raw && !t.stop.Load() {
			if err := b.rawRound(t, d); err != nil {
				fmt.Fprintln(e.Err)
				return err
			}
			if len(b.raws) > i {
				fmt.Fprintf(e.Err, ", raw %s/s", cli.CountText(b.raws[i].rate))
			}
		}
		if rounds > 1 {
			fmt.Fprintln(e.Err)
		}
	}
	return nil
}

// rpcRound runs the load in all threads for d. A round that fails counts only if it is the first:
// the rounds before it are whole.
func (b *bench) rpcRound(t *team, d time.Duration) (s sum, err error) {
	w := t.workers[0]
	var before, after report
	if err := w.do(func(w *worker) (err error) {
		before, err = w.ask(control{Op: "stats"})
		return err
	}); err != nil {
		return s, err
	}
	cpu, resent, one := cli.ProcessCPU(), t.retransmits(), newHistogram()
	b.line.next()
	err = t.each(func(w *worker) error {
		if b.symmetric {
			if _, err := w.ask(control{Op: "load", Load: b.shape}); err != nil {
				return err
			}
		}
		r, err := w.load(d, false)
		if b.symmetric && err == nil {
			var rep report
			if rep, err = w.ask(control{Op: "unload"}); err == nil && rep.Elapsed > 0 {
				r.done += rep.Done
				r.rate += float64(rep.Done) / rep.Elapsed.Seconds()
				err = w.settle()
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		s.add(r)
		b.hist.Merge(w.ep.load.hist)
		one.Merge(w.ep.load.hist)
		b.line.every = w.ep.load.pace
		b.line.add(w.ep.load.marks)
		return err
	})
	s.average()
	cpu = cli.ProcessCPU() - cpu
	if err == nil {
		err = w.do(func(w *worker) (err error) { after, err = w.ask(control{Op: "stats"}); return err })
	}
	if err == nil || len(b.rounds) == 0 {
		b.rounds, b.hists = append(b.rounds, s), append(b.hists, one)
		b.resent += t.retransmits() - resent
	}
	if err != nil {
		return s, err
	}
	if cpu > 0 && after.CPU > before.CPU {
		b.cpu += cpu + after.CPU - before.CPU
	}
	b.resent += after.Retransmits - before.Retransmits
	return s, nil
}

func (t *team) retransmits() (n uint64) {
	for _, w := range t.workers {
		n += w.ep.rpc.Stats().Protocol.Retransmits
	}
	return n
}

func (b *bench) total() (n uint64) {
	for _, r := range b.rounds {
		n += r.done
	}
	return n
}

func medianOf(rounds []sum, f func(sum) float64) float64 {
	var v []float64
	for _, r := range rounds {
		v = append(v, f(r))
	}
	return cli.Median(v)
}

func rateOf(s sum) float64 { return s.rate }
func p50Of(s sum) float64  { return s.p50 }
func p99Of(s sum) float64  { return s.p99 }

// result sums up.
func (b *bench) result() *Result {
	f := b.flags
	r := &Result{
		Bench: b.name, Transport: f.Transport, Way: b.way, Link: f.link(), Size: b.shape.Size,
		RespSize: b.shape.RespSize, MTU: b.mtu,
		Window: b.shape.Window, Batch: b.shape.Batch, Threads: f.Threads, Sessions: b.shape.Sessions,
		Credits:   b.credits,
		Symmetric: b.symmetric, CC: f.CC, LinkRate: f.LinkRate, Off: f.switches.list(), Rpcs: b.total(),
		Rps: medianOf(b.rounds, rateOf), Retransmits: b.resent,
	}
	r.Cores = b.cores
	for _, s := range b.rounds {
		r.Duration += s.elapsed.Seconds()
		r.Errors += s.errs
	}
	if f.FaultFlags.any() {
		r.Seed = f.Seed
	}
	if b.cpu > 0 {
		r.CPU = float64(b.cpu) / float64(r.Rpcs)
	}
	if b.hist.TotalCount() > 0 {
		us := func(q float64) float64 { return float64(b.hist.ValueAtQuantile(q)) / 1e3 }
		r.Mean, r.P50, r.P99, r.P999, r.Max = b.hist.Mean()/1e3, us(50), us(99), us(99.9),
			float64(b.hist.Max())/1e3
	}
	if b.name == "bandwidth" {
		r.Gbps = r.Rps * float64(max(b.shape.Size, b.shape.RespSize)) * 8 / 1e9
	}
	b.addRaw(r)
	return r
}

// rawClient stays open between the raw rounds of a thread.
type rawClient struct {
	end  *rawEnd
	data []byte
}

func (b *bench) closeRaw() (err error) {
	for _, c := range b.rawEnds {
		err = errors.Join(err, c.end.tr.Close())
	}
	return err
}
