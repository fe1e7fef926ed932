package paperlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/chart"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/paperlab/rfplab"
	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// Cmds are the subcommands of sim.
type Cmds struct {
	Incast   simIncastCmd   `cmd:"" help:"Many clients send large requests to one server: Table 5."`
	Loss     simLossCmd     `cmd:"" help:"Large requests over a lossy link: Table 4."`
	Scale    simScaleCmd    `cmd:"" help:"Small RPCs between all threads of a cluster: section 6.3."`
	Workload simWorkloadCmd `cmd:"" help:"Messages of all sizes between all nodes, at a load: W2 to W5 of Homa."`
	Paths    simPathsCmd    `cmd:"" help:"Several paths between two racks, one of which is congested."`
	Rfp      simRfpCmd      `cmd:"" help:"Remote fetching beside replies, on modelled adapters: RF-RPC."`
	Herd     simHerdCmd     `cmd:"" help:"Single verbs and HERD's way of calls, on modelled adapters: HERD."`
	Waiting  simWaitingCmd  `cmd:"" help:"Loops that spin, sleep, or both, on virtual cores: RR-Compound."`
}

// Vars are the variables of their help.
var Vars = kong.Vars{"rfp_figures": "process, " + strings.Join(rfplab.CurveNames, ", "),
	"herd_figures": "named, " + strings.Join(rfplab.HerdCurveNames, ", ")}

// simFlags are the flags of every experiment.
type simFlags struct {
	Seed    uint64 `default:"1" help:"Seed of everything that is random; default ${default}. The same seed and flags give the same result." placeholder:"N"`
	Plot    string `help:"Draw the result too, into a file that ends in .svg or .png." placeholder:"FILE"`
	JSON    bool   `name:"json" help:"Print one JSON object."`
	GC      int    `name:"gc" default:"200" hidden:"" help:"The garbage collector's GOGC while running."`
	Profile string `name:"cpuprofile" hidden:"" help:"Write a CPU profile."`
}

// check reports a plot that could not be written, before the work is done.
func (f *simFlags) check() error {
	if f.Plot == "" {
		return nil
	}
	if ext := strings.ToLower(filepath.Ext(f.Plot)); ext != ".svg" && ext != ".png" {
		return cli.Usagef("--plot %q: want a file that ends in .svg or .png", f.Plot)
	}
	if d, err := os.Stat(filepath.Dir(f.Plot)); err != nil || !d.IsDir() {
		return cli.Usagef("--plot %q: there is no folder %s", f.Plot, filepath.Dir(f.Plot))
	}
	return nil
}

// outcome is the result of an experiment.
type outcome struct {
	result any // for JSON
	rows   int // finished
	cut    bool
	table  func(w io.Writer)
	chart  func() chart.Chart
}

// run runs an experiment and shows what came of it.
func (f *simFlags) run(e *cli.Env, experiment func(simlab.Progress) (outcome, error)) error {
	debug.SetGCPercent(f.GC)
	stopProfile, err := cli.StartProfile(f.Profile)
	if err != nil {
		return err
	}
	o, err := experiment(newProgress(e).tell)
	stopProfile()
	switch {
	case err != nil:
		return err
	case o.rows == 0:
		return cli.ErrStopped
	case f.JSON:
		err = json.NewEncoder(e.Out).Encode(o.result)
	default:
		o.table(e.Out)
		if o.cut {
			_, err = fmt.Fprintln(e.Out, "interrupted: only what was finished")
		}
	}
	if f.Plot == "" {
		return err
	}
	c := o.chart()
	return errors.Join(err, c.Save(f.Plot))
}

// progress prints how far a run is, every other second.
type progress struct {
	e           *cli.Env
	begun, last monotime.Time
}

const progressEvery = 2 * time.Second

func newProgress(e *cli.Env) *progress {
	now := monotime.Now()
	return &progress{e, now, now}
}

// tell is a simlab.Progress.
func (p *progress) tell(what string, part float64) {
	now := monotime.Now()
	if now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	fmt.Fprintf(p.e.Err, "%3.0f s  %s, %.0f %%\n", now.Sub(p.begun).Seconds(), what, 100*part)
}

// algorithm reads the name of a congestion control, one of those that may be.
func algorithm(name string, may ...string) (erpc.CCAlgorithm, error) {
	if !slices.Contains(may, name) {
		return 0, cli.Usagef("--algorithm %q: want one of %s", name, strings.Join(may, ", "))
	}
	a := erpc.CCTimely
	for a.String() != name {
		a++
	}
	return a, nil
}

func largeSize(size int) error { return cli.Between("--size", size, 1024, 8<<20) }

func credits(n int) error { return cli.Between("--credits", n, 1, 4096) }

// simulated complains about a virtual time that is too short or absurdly long.
func simulated(flag string, d, least time.Duration) error {
	if d < least || d > time.Minute {
		return cli.Usagef("%s %v: must be %v to 1m", flag, d, least)
	}
	return nil
}

// seconds formats a time in seconds as a duration.
func seconds(s float64) string { return time.Duration(s * 1e9).Round(time.Microsecond).String() }
