package measure

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
)

// outFlags say where a bench writes more than its table.
type outFlags struct {
	Plot string `help:"Draw latencies, and the rate over time." placeholder:"FILE.svg"`
	HDR  string `name:"hdr" help:"Write latencies as a HdrHistogram log." placeholder:"FILE.hlog"`
}

func (f *outFlags) check() error {
	if f.Plot != "" && !strings.HasSuffix(strings.ToLower(f.Plot), ".svg") {
		return cli.Usagef("--plot %s: want a name that ends with .svg", f.Plot)
	}
	return nil
}

// marksPerRound is about how many points of the rate over time a round has.
const marksPerRound = 100

// mark says how many RPCs had ended at some time since a load began.
type mark struct {
	at   time.Duration
	done uint64
}

// timeline is the rate over time, of all threads together.
type timeline struct {
	every time.Duration
	rates []float64 // per second, one for each step of every
	from  int       // the step at which the round under way begins
}

// add adds the marks of one thread in the round under way.
func (t *timeline) add(marks []mark) {
	last := mark{}
	for _, m := range marks {
		rate := float64(m.done-last.done) / max(t.every, m.at-last.at).Seconds()
		for k := t.from + int(last.at/t.every); k < t.from+int(m.at/t.every); k++ {
			for len(t.rates) <= k {
				t.rates = append(t.rates, 0)
			}
			t.rates[k] += rate
		}
		last = m
	}
}

// next begins another round, on a time axis without the gap between.
func (t *timeline) next() { t.from = len(t.rates) }

// write writes the files that were asked for.
func (b *bench) write(f *outFlags, r *Result) error {
	if f.HDR != "" {
		if err := b.writeHDR(f.HDR); err != nil {
			return fmt.Errorf("--hdr: %w", err)
		}
	}
	if f.Plot == "" {
		return nil
	}
	what := fmt.Sprintf("%s over %s, %s requests, %d in flight", r.Bench, r.overText(),
		cli.BytesText(r.Size), r.Window*r.Threads)
	if err := chart.SavePlots(f.Plot, b.latencyChart(what), b.rateChart()); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// latencyChart shows the distribution of latencies: how long the quickest share of RPCs took.
func (b *bench) latencyChart(what string) chart.Chart {
	s := chart.Series{Name: "latency"}
	for _, br := range b.hist.CumulativeDistribution() {
		if br.Quantile < 100 {
			s.Add(100/(100-br.Quantile), float64(br.ValueAt)/1e3)
		}
	}
	return chart.Chart{Title: "Latency: " + what, X: "share of RPCs that took no longer",
		Y: "us", Shares: true, LogX: true, LogY: true, Series: []chart.Series{s}}
}

// rateChart shows the rate over time.
func (b *bench) rateChart() chart.Chart {
	s := chart.Series{Name: "RPCs that ended"}
	for i, r := range b.line.rates {
		s.Add((float64(i)+0.5)*b.line.every.Seconds(), r)
	}
	return chart.Chart{Title: "Rate", X: "seconds", Y: "RPCs per second", Series: []chart.Series{s}}
}

// writeHDR writes the latencies, in ns, as a log of HdrHistogram: one interval for each round.
func (b *bench) writeHDR(file string) error {
	var out bytes.Buffer
	w := hdrhistogram.NewHistogramLogWriter(&out)
	for _, err := range []error{
		w.OutputLogFormatVersion(), w.OutputComment("#[erpc bench " + b.name + ", in ns]\n"),
		w.OutputStartTime(b.begunAt.UnixMilli()), w.OutputLegend(),
	} {
		if err != nil {
			return err
		}
	}
	at := b.begunAt
	for i, h := range b.hists {
		h.SetStartTimeMs(at.UnixMilli())
		at = at.Add(b.rounds[i].elapsed)
		h.SetEndTimeMs(at.UnixMilli())
		if err := w.OutputIntervalHistogram(h); err != nil {
			return err
		}
	}
	return outfile.Write(file, out.Bytes(), 0o644)
}
