package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// waitingRow has the measurements of a mode at a load: medians of the rounds.
type waitingRow struct {
	Mode     string
	Conns    int
	PauseUs  int
	Rate     float64    // calls per second
	Range    [2]float64 // least and most of the rounds
	P50, P99 float64    // us
	CPU      float64    // cores of the server process
	Idle     float64    // ... while no client called
	Wrong    uint64     `json:",omitempty"`
}

// waitingLoad is all rounds of the modes at a load.
type waitingLoad struct {
	modes  []string
	rounds [][]waitingRow // by mode
}

// load measures the modes in turns.
func (c *waitingCmd) load(
	ctx context.Context, modes []string, conns, pause int,
) (*waitingLoad, error) {
	l := &waitingLoad{modes, make([][]waitingRow, len(modes))}
	for round := range c.Rounds {
		for i := range modes {
			i = (i + round) % len(modes)
			if ctx.Err() != nil {
				return nil, cli.ErrStopped
			}
			row, err := c.measure(ctx, modes[i], conns, pause)
			if err != nil {
				return nil, fmt.Errorf("%s, %d connections: %w", modes[i], conns, err)
			}
			l.rounds[i] = append(l.rounds[i], row)
		}
	}
	return l, nil
}

// row is the medians of a mode.
func (l *waitingLoad) row(i int) waitingRow {
	of := func(f func(*waitingRow) float64) (list []float64) {
		for k := range l.rounds[i] {
			list = append(list, f(&l.rounds[i][k]))
		}
		return list
	}
	rates := of(func(r *waitingRow) float64 { return r.Rate })
	row := l.rounds[i][0]
	row.Rate, row.Range = cli.Median(rates), [2]float64{slices.Min(rates), slices.Max(rates)}
	row.P50 = cli.Median(of(func(r *waitingRow) float64 { return r.P50 }))
	row.P99 = cli.Median(of(func(r *waitingRow) float64 { return r.P99 }))
	row.CPU = cli.Median(of(func(r *waitingRow) float64 { return r.CPU }))
	row.Idle = cli.Median(of(func(r *waitingRow) float64 { return r.Idle }))
	return row
}

// share is the rate of a mode as a part of the best of others within a round: the median, the
// least and the most. It is zeros without that mode or without others.
func (l *waitingLoad) share(mode string, others ...string) (s [3]float64) {
	at := slices.Index(l.modes, mode)
	if at < 0 {
		return s
	}
	var list []float64
	for round := range l.rounds[at] {
		best := 0.0
		for i, m := range l.modes {
			if slices.Contains(others, m) {
				best = max(best, l.rounds[i][round].Rate)
			}
		}
		if best > 0 {
			list = append(list, l.rounds[at][round].Rate/best)
		}
	}
	if len(list) > 0 {
		s = [3]float64{cli.Median(list), slices.Min(list), slices.Max(list)}
	}
	return s
}

// waitingShares are the parts that the RR-Compound paper and this project's bars ask for.
type waitingShares struct {
	PauseUs, Conns int
	BPEV           [3]float64 // of the better of BP and EVENT: median, least, most
	Adaptive       [3]float64 // of the best of all modes
}

func (l *waitingLoad) shares() waitingShares {
	first := &l.rounds[0][0]
	return waitingShares{first.PauseUs, first.Conns, l.share("BPEV", "BP", "EVENT"),
		l.share("adaptive", waitingModes...)}
}

// waitingReport is the object that --json prints.
func waitingReport(loads []*waitingLoad) map[string]any {
	var rows []waitingRow
	var shares []waitingShares
	for _, l := range loads {
		for i := range l.modes {
			rows = append(rows, l.row(i))
		}
		shares = append(shares, l.shares())
	}
	return map[string]any{"rows": rows, "shares": shares}
}

func printLoads(w io.Writer, loads []*waitingLoad) error {
	t := cli.NewTable(w)
	fmt.Fprintln(t, "pause\tconns\tmode\tk/s\trange\tp50\tp99\tCPU\tidle CPU")
	for _, l := range loads {
		for i := range l.modes {
			r := l.row(i)
			fmt.Fprintf(t, "%d us\t%d\t%s\t%.1f\t%.1f-%.1f\t%.1f us\t%.1f us\t%.2f\t%.3f\n",
				r.PauseUs, r.Conns, r.Mode, r.Rate/1e3, r.Range[0]/1e3, r.Range[1]/1e3, r.P50, r.P99,
				r.CPU, r.Idle)
		}
		s := l.shares()
		if s.BPEV[0] > 0 {
			fmt.Fprintf(t, "\t\tBPEV to the better of BP and EVENT\t%.2f\t%.2f-%.2f\n",
				s.BPEV[0], s.BPEV[1], s.BPEV[2])
		}
		if s.Adaptive[0] > 0 {
			fmt.Fprintf(t, "\t\tadaptive to the best\t%.2f\t%.2f-%.2f\n",
				s.Adaptive[0], s.Adaptive[1], s.Adaptive[2])
		}
	}
	return t.Flush()
}
