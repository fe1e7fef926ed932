package rfp

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
)

// Machine has the capacities of a cluster that Tune needs. Its owner's benchmark measures each of
// them once per cluster, in units of one per second.
type Machine struct {
	// Reads is how many READs of so many bytes a server's adapter serves.
	Reads func(bytes int) (float64, error)
	// Calls is how many calls a server answers whose handlers take so long, in mode Fetch or Reply.
	Calls func(mode Mode, process time.Duration) (float64, error)
	// IOPS is I(R, F): how many calls a server answers whose results fit into F bytes, if clients
	// READ F bytes, and up to R times in vain. Its handlers take what the application's do.
	IOPS func(r, f int) (float64, error)
	// RoundTrip is the time of a READ without load.
	RoundTrip time.Duration
}

// TuneRow is a candidate.
type TuneRow struct {
	R, F int
	IOPS float64 // I(R, F)
	T    float64 // mean over the results of I, of which those larger than F count half
}

// Tuning is the result of Tune. R, F and SwitchTime are for Config.
type Tuning struct {
	R, F       int
	SwitchTime time.Duration // process time from which fetching gains less than 10 %
	Most       int           // the largest R that was tried: READs that fit into SwitchTime
	Low, High  int           // the range of F, bytes
	Table      []TuneRow
}

// Bounds of a gain, of flat and of bound by bandwidth (RF-RPC, section 3.2).
const (
	tuneGain  = 1.1
	tuneFlat  = 0.9
	tuneStep  = 64 // bytes, a cache line
	tuneSpan  = 20 * time.Microsecond
	tuneGrain = 500 * time.Nanosecond
	tuneLarge = 8192 // bytes
)

// Tune chooses R and F for an application whose response messages have these sizes in bytes, a
// sample of them, by trying all candidates (RF-RPC, section 3.2, equation 2). R goes up to the
// READs that fit into the process time at which fetching stops to pay; F from the size up to which
// READs cost the same to that from which bandwidth bounds them. Errors: ErrConfig, those of m.
func Tune(m *Machine, sizes []int) (t Tuning, err error) {
	if len(sizes) == 0 || m.RoundTrip <= 0 {
		return t, fmt.Errorf("%w: %d samples, a READ takes %v", ErrConfig, len(sizes), m.RoundTrip)
	}
	for _, s := range sizes {
		if s < Overhead || s > MaxBody {
			return t, fmt.Errorf("%w: a response of %d bytes", ErrConfig, s)
		}
	}
	if err := t.ranges(m); err != nil {
		return t, err
	}
	best := TuneRow{T: math.Inf(-1)}
	for r := 1; r <= t.Most; r++ {
		for f := t.Low; f <= t.High; f += tuneStep {
			row := TuneRow{R: r, F: f}
			if row.IOPS, err = positive(m.IOPS(r, f)); err != nil {
				return t, fmt.Errorf("with R = %d, F = %d: %w", r, f, err)
			}
			for _, s := range sizes {
				if f >= s {
					row.T += row.IOPS
				} else {
					row.T += row.IOPS / 2
				}
			}
			row.T /= float64(len(sizes))
			t.Table = append(t.Table, row)
			// As good with more patience is better: fewer changes of the mode for nothing.
			if row.T > best.T || row.T == best.T && row.F == best.F {
				best = row
			}
		}
	}
	t.R, t.F = best.R, best.F
	return t, nil
}

// ranges finds the candidates.
func (t *Tuning) ranges(m *Machine) error {
	t.SwitchTime = tuneSpan
	for p := time.Duration(0); p < tuneSpan; p += tuneGrain {
		fetch, err := positive(m.Calls(Fetch, p))
		if err != nil {
			return err
		}
		reply, err := positive(m.Calls(Reply, p))
		if err != nil {
			return err
		}
		if fetch < tuneGain*reply {
			t.SwitchTime = p
			break
		}
	}
	t.Most = int(min(max((t.SwitchTime+m.RoundTrip-1)/m.RoundTrip, 1), MaxR))
	var small, bytes float64
	var rates [16]float64
	n := 0
	for size := tuneStep; size <= tuneLarge; size *= 2 {
		rate, err := positive(m.Reads(size))
		if err != nil {
			return err
		}
		rates[n] = rate
		n++
		if small == 0 {
			small = rate
		}
		bytes = max(bytes, rate*float64(size))
	}
	for i, size := 0, tuneStep; i < n; i, size = i+1, 2*size {
		if rates[i] >= tuneFlat*small {
			t.Low = size
		}
		if t.High == 0 && rates[i]*float64(size) >= tuneFlat*bytes {
			t.High = size
		}
	}
	t.High = max(t.High, t.Low)
	return nil
}

// positive passes a rate on.
func positive(rate float64, err error) (float64, error) {
	if err == nil && !(rate > 0) {
		err = fmt.Errorf("%w: a rate of %v per second", ErrConfig, rate)
	}
	return rate, err
}

// Print writes the table, with the choice marked.
func (t *Tuning) Print(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "R\tF\tI(R,F)\tT\t")
	for _, r := range t.Table {
		mark := ""
		if r.R == t.R && r.F == t.F {
			mark = "chosen"
		}
		fmt.Fprintf(tab, "%d\t%d\t%.3f M/s\t%.3f M/s\t%s\n", r.R, r.F, r.IOPS/1e6, r.T/1e6, mark)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	const ranges = "Replies from a process time of %v on; R up to %d, F from %d to %d bytes.\n"
	_, err := fmt.Fprintf(w, ranges, t.SwitchTime, t.Most, t.Low, t.High)
	return err
}
