package waitlab

import (
	"context"
	"math/bits"
	"strconv"
	"time"
)

// Grid describes which runs Figures makes.
type Grid struct {
	Costs  Costs
	Conns  []int
	Pauses []time.Duration
	Span   time.Duration // that counts, of each run; as much passes before
	Seed   uint64
	Spins  []time.Duration // of BPEV with one client, for the knee; negative: none
}

// DefaultGrid has the loads of the paper's figures 4 to 8 and 13.
func DefaultGrid() Grid {
	g := Grid{Costs: Paper(), Conns: []int{1, 2, 4, 8, 16, 32, 40, 64, 96, 128},
		Pauses: []time.Duration{0, 100 * us, 300 * us, 400 * us}, Span: 48 * ms, Seed: 1}
	g.Spins = append(g.Spins, -1)
	for d := us; d <= 12*us; d += us {
		g.Spins = append(g.Spins, d)
	}
	g.Spins = append(g.Spins, 16*us, 20*us)
	return g
}

// Machine returns the costs of a machine of so many cores, else those of Paper.
func Machine(cores int) Costs {
	c := Paper()
	was := scale(c.Cores)
	c.Cores = cores
	c.Latency = c.Latency / was * scale(cores)
	c.LeastSlice = c.LeastSlice / was * scale(cores)
	return c
}

// scale is the scheduler's factor, 1+log2(cores) with 8 cores at most.
func scale(cores int) time.Duration { return time.Duration(bits.Len(uint(min(cores, 8)))) }

// Row has the results of all modes at one load, in the order of Modes.
type Row struct {
	Pause   time.Duration
	Conns   int
	Results []Result
}

// BPEVShare is BPEV's rate as a part of that of the better of BP and EVENT.
func (r *Row) BPEVShare() float64 {
	return r.Results[BPEV].Rate / max(r.Results[BP].Rate, r.Results[EVENT].Rate)
}

// AdaptiveShare is the adaptive loop's rate as a part of the best.
func (r *Row) AdaptiveShare() float64 {
	best := 0.0
	for i := range r.Results {
		best = max(best, r.Results[i].Rate)
	}
	return r.Results[Adaptive].Rate / best
}

// Spin is a point of the sweep of BPEV's spin time, with one client.
type Spin struct {
	For  time.Duration
	Rate float64
	P50  time.Duration
	CPU  float64
}

// Figure is a number of the paper and ours.
type Figure struct {
	What         string
	Model, Paper float64
	Unit         string
	Below        bool // the paper says less than Paper
	Above        bool // ... more
}

// Report holds everything that Figures has found.
type Report struct {
	Cores   int
	Modes   []string
	Rows    []Row
	Spins   []Spin
	Knee    time.Duration // the least spin within 2 % of the best rate; 0: there is none
	Figures []Figure      `json:",omitempty"` // on the paper's machine
	Cut     bool
}

// Figures makes the runs.
func Figures(ctx context.Context, g Grid, tell func(string, float64)) (rep Report, err error) {
	rep.Cores, rep.Modes = g.Costs.Cores, names[:]
	for i, pause := range g.Pauses {
		for k, conns := range g.Conns {
			if ctx.Err() != nil {
				rep.Cut = true
				return rep, nil
			}
			tell("loads", float64(i*len(g.Conns)+k)/float64(len(g.Pauses)*len(g.Conns)))
			row, err := load(g, pause, conns)
			if err != nil {
				return rep, err
			}
			rep.Rows = append(rep.Rows, row)
		}
	}
	if err := rep.knee(g); err != nil {
		return rep, err
	}
	if g.Costs.Cores == Paper().Cores {
		err = rep.compare(g)
	}
	return rep, err
}

func load(g Grid, pause time.Duration, conns int) (Row, error) {
	row := Row{Pause: pause, Conns: conns}
	for _, m := range Modes() {
		res, err := Simulate(Run{Mode: m, Conns: conns, Pause: pause, Costs: g.Costs, Work: Echo(),
			Warm: g.Span, Span: g.Span, Seed: g.Seed})
		if err != nil {
			return row, err
		}
		row.Results = append(row.Results, res)
	}
	return row, nil
}

// knee is figure 13.
func (r *Report) knee(g Grid) error {
	best := 0.0
	for _, d := range g.Spins {
		res, err := Simulate(Run{Mode: BPEV, Conns: 1, Costs: g.Costs, Work: Small(), SpinFor: d,
			Warm: g.Span / 4, Span: g.Span, Seed: g.Seed})
		if err != nil {
			return err
		}
		r.Spins = append(r.Spins, Spin{max(d, 0), res.Rate, res.P50, res.CPU})
		best = max(best, res.Rate)
	}
	for _, s := range r.Spins {
		if s.Rate >= .98*best {
			r.Knee = s.For
			break
		}
	}
	return nil
}

// at returns the result of a load; zeros if there was no such run.
func (r *Report) at(pause time.Duration, conns int, m Mode) (res Result, ok bool) {
	for _, row := range r.Rows {
		if row.Pause == pause && row.Conns == conns {
			return row.Results[m], true
		}
	}
	return res, false
}

// PaperRate is a rate of figure 8 (a) or (c), in thousand calls per second.
type PaperRate struct {
	Pause time.Duration
	Conns int
	Mode  Mode
	Rate  float64
	Side  int // -1: the paper says less than Rate; 1: more
}

// PaperRates returns those that the paper's text gives (section IV-E).
func PaperRates() []PaperRate {
	return []PaperRate{
		{0, 4, BP, 132, 0}, {0, 4, BPTS, 135, 0}, {0, 4, EVENT, 50, -1}, {0, 4, BPEV, 120, 0},
		{0, 32, BP, 812, 0}, {0, 32, BPTS, 785, 0}, {0, 32, EVENT, 413, 0}, {0, 32, BPEV, 620, 0},
		{0, 64, BP, 598, 0}, {0, 64, BPTS, 790, 1}, {0, 64, BPEV, 790, 1},
		{0, 128, BPTS, 1417 / 1.49, 0}, {0, 128, BPEV, 1417, 0}, {400 * us, 128, BP, 94, 0},
	}
}

// compare puts the paper's figures beside the model's.
func (r *Report) compare(g Grid) error {
	for _, p := range PaperRates() {
		if res, ok := r.at(p.Pause, p.Conns, p.Mode); ok {
			r.Figures = append(r.Figures, Figure{What: describe(p.Pause, p.Conns, p.Mode),
				Model: res.Rate / 1e3, Paper: p.Rate, Unit: "k/s",
				Below: p.Side < 0, Above: p.Side > 0})
		}
	}
	add := func(what string, model, paper float64, unit string) {
		r.Figures = append(r.Figures, Figure{What: what, Model: model, Paper: paper, Unit: unit})
	}
	bp, ok := r.at(400*us, 128, BP)
	if ok {
		ts, _ := r.at(400*us, 128, BPTS)
		ev, _ := r.at(400*us, 128, BPEV)
		add("400 us, 128 connections: CPU of BP to that of BPTS", bp.CPU/ts.CPU, 2.8, "times")
		add("400 us, 128 connections: CPU of BP to that of BPEV", bp.CPU/ev.CPU, 15.2, "times")
	}
	printed, err := Simulate(Run{Mode: BPEV, Conns: 16, Pause: 400 * us, Costs: g.Costs,
		Work: Echo(), PollersSpin: -1, Warm: ms, Span: ms, Seed: g.Seed})
	add("CPU of idle BPEV whose pollers never sleep", 100*printed.Idle, 200, "%")
	if len(r.Spins) > 1 {
		last := r.Spins[len(r.Spins)-1]
		add("one client, long spin to none: rate", last.Rate/r.Spins[0].Rate, 252./78, "times")
		add("knee of the spin", float64(r.Knee)/1e3, 6, "us")
	}
	return err
}

func describe(pause time.Duration, conns int, m Mode) string {
	text := "continuous"
	if pause > 0 {
		text = pause.String()
	}
	return text + ", " + strconv.Itoa(conns) + " connections, " + m.String()
}
