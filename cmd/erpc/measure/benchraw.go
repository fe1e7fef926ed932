package measure

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// rawRound measures the raw transport in all threads for d, in the way that matches
// the bench.
func (b *bench) rawRound(t *team, d time.Duration) error {
	if b.rawEnds == nil {
		b.rawEnds = map[*worker]*rawClient{}
		for _, w := range t.workers {
			local, err := b.flags.Near(w.addr)
			if err != nil {
				return err
			}
			end, err := openRaw(&b.flags.NetFlags, local)
			if err != nil {
				return err
			}
			b.rawEnds[w] = &rawClient{end: end,
				data: make([]byte, max(1<<20, b.shape.Size, b.shape.RespSize))}
		}
	}
	if b.name == "bandwidth" {
		return b.rawTurn(t, &b.raws, d, b.rawStream)
	}
	err := b.rawTurn(t, &b.raws, d, b.rawEcho)
	if b.name == "latency" && b.flags.Transport == "udp" && err == nil {
		err = b.rawTurn(t, &b.plains, d, b.rawPlain)
		if errors.Is(err, errNoPlain) {
			err = nil
		}
	}
	return err
}

// rawTries is how often a raw round is tried, each time twice as long: on a crowded
// machine the server may not get to run in a short one.
const rawTries = 6

// rawTurn runs one raw round in all threads and adds what it gave to list.
func (b *bench) rawTurn(t *team, list *[]sum, d time.Duration,
	run func(*worker, time.Duration) (round, error)) error {
	for try := range rawTries {
		var s sum
		err := t.each(func(w *worker) error {
			r, err := run(w, d<<try)
			if _, aerr := w.ask(control{Op: "rawoff"}); err == nil {
				err = aerr
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			s.add(r)
			return err
		})
		if err != nil || t.stop.Load() {
			return err
		}
		if s.rate > 0 {
			s.average()
			*list = append(*list, s)
			return nil
		}
	}
	return errors.New("raw: no packet came back: is the way to the server open for UDP?")
}

// packet returns the size of a packet that carries n bytes.
func (b *bench) packet(n int) int { return min(n+wire.HeaderSize, b.mtu) }

func (b *bench) rawAddr(w *worker, kind string) (string, error) {
	rep, err := w.ask(control{Op: "raw", Raw: kind, RespSize: b.packet(b.shape.RespSize)})
	return b.flags.medium().peer(w.addr, rep.RawAddr), err
}

func (b *bench) rawDst(w *worker, kind string) (to transport.Addr, err error) {
	addr, err := b.rawAddr(w, kind)
	if err != nil {
		return to, err
	}
	return b.rawEnds[w].end.tr.Resolve(addr)
}

func (b *bench) rawEcho(w *worker, d time.Duration) (round, error) {
	to, err := b.rawDst(w, rawEcho)
	if err != nil {
		return round{}, err
	}
	run := rawRun{size: b.packet(b.shape.Size), window: b.shape.Window, batch: b.shape.Batch,
		duration: d}
	if b.name == "latency" {
		run.hist = newHistogram()
	}
	return w.ep.echoRaw(b.rawEnds[w].end, to, run)
}

// errNoPlain means that this system has no plain sockets to compare with.
var errNoPlain = errors.New("no plain sockets")

func (b *bench) rawPlain(w *worker, d time.Duration) (round, error) {
	addr, err := b.rawAddr(w, rawPlain)
	if err != nil {
		return round{}, fmt.Errorf("%w: %w", errNoPlain, err)
	}
	s, err := dialPlain(addr)
	if err != nil {
		return round{}, fmt.Errorf("%w: %w", errNoPlain, err)
	}
	r, err := w.ep.pingPlain(s, rawRun{size: b.packet(b.shape.Size), window: 1, batch: 1, duration: d,
		hist: newHistogram()})
	return r, errors.Join(err, s.close())
}

func (b *bench) rawStream(w *worker, d time.Duration) (round, error) {
	to, err := b.rawDst(w, rawSink)
	if err != nil {
		return round{}, err
	}
	c := b.rawEnds[w]
	window := max(1, min(4*rawBurst, c.end.tr.Caps().RxRing/2))
	err = w.ep.streamRaw(c.end, to,
		rawRun{size: b.mtu, window: window, batch: rawBurst / 4, duration: d}, c.data)
	if err != nil {
		return round{}, err
	}
	rep, err := w.ask(control{Op: "rawoff"})
	if err != nil || rep.Elapsed <= 0 {
		return round{}, err
	}
	// rate is in bytes per second of data here: headers are the RPC's to pay too.
	data := float64(rep.RawBytes) * float64(b.mtu-wire.HeaderSize) / float64(b.mtu)
	return round{done: rep.RawBytes, elapsed: rep.Elapsed, rate: data / rep.Elapsed.Seconds()}, nil
}

// addRaw compares with the raw rounds: the ratio is the median over the rounds.
func (b *bench) addRaw(r *Result) {
	n := min(len(b.rounds), len(b.raws))
	if n == 0 {
		return
	}
	r.Rounds = n
	var ratios, tails []float64
	for i := range n {
		switch b.name {
		case "latency":
			raw, tail := b.raws[i].p50, b.raws[i].p99
			if i < len(b.plains) {
				raw, tail = min(raw, b.plains[i].p50), min(tail, b.plains[i].p99)
			}
			ratios = append(ratios, b.rounds[i].p50/raw)
			tails = append(tails, b.rounds[i].p99/tail)
		case "rate":
			ratios = append(ratios, b.rounds[i].rate/b.raws[i].rate)
		case "bandwidth":
			ratios = append(ratios,
				b.rounds[i].rate*float64(max(b.shape.Size, b.shape.RespSize))/b.raws[i].rate)
		}
	}
	r.Ratio = cli.Median(ratios)
	switch b.name {
	case "latency":
		r.RawP50, r.RawPlainP50, r.RawP99 = medianOf(b.raws, p50Of), medianOf(b.plains, p50Of),
			medianOf(b.raws, p99Of)
		if r.RawPlainP50 > 0 {
			r.RawP50, r.RawP99 = min(r.RawP50, r.RawPlainP50), min(r.RawP99, medianOf(b.plains, p99Of))
		}
		r.RatioP99 = cli.Median(tails)
	case "rate":
		r.RawRps = medianOf(b.raws, rateOf)
	case "bandwidth":
		r.RawGbps = medianOf(b.raws, rateOf) * 8 / 1e9
	}
}
