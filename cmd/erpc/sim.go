package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/cmd/erpc/simlab"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

type simCmds struct {
	Incast simIncastCmd `cmd:"" help:"Many clients send large requests to one server: Table 5 of the paper."`
	Loss   simLossCmd   `cmd:"" help:"Large requests over a lossy link: Table 4."`
	Scale  simScaleCmd  `cmd:"" help:"Small RPCs between all threads of a cluster: section 6.3, Figure 5."`
}

// simFlags are the flags of every experiment.
type simFlags struct {
	Seed    uint64 `default:"1" help:"Seed of everything that is random; default ${default}. The same seed and flags give the same result." placeholder:"N"`
	JSON    bool   `name:"json" help:"Print one JSON object."`
	GC      int    `name:"gc" default:"400" hidden:"" help:"The garbage collector's GOGC while running."`
	Profile string `name:"cpuprofile" hidden:"" help:"Write a CPU profile."`
}

// progress prints how far a long run is: nothing in the first two seconds, then a
// line for each step and, in long steps, every other second.
type progress struct {
	e     *env
	begun int64
	last  int64
	what  string
}

const progressEvery = int64(2 * time.Second)

func newProgress(e *env) *progress {
	now := monotime.Now()
	return &progress{e: e, begun: now, last: now}
}

// tell is a simlab.Progress.
func (p *progress) tell(what string, part float64) {
	now := monotime.Now()
	if now-p.begun < progressEvery || what == p.what && now-p.last < progressEvery {
		return
	}
	p.what, p.last = what, now
	fmt.Fprintf(p.e.err, "%3.0f s  %s, %.0f %%\n", float64(now-p.begun)/1e9, what, 100*part)
}

var _ simlab.Progress = new(progress).tell

// numbers reads a list of whole numbers, each from low to high.
func numbers(flag, text string, low, high int) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < low || n > high {
			return nil, usagef("%s %q: want numbers from %d to %d, with commas between", flag, text, low, high)
		}
		list = append(list, n)
	}
	return list, nil
}

// algorithm reads the name of a congestion control, one of those that may be.
func algorithm(name string, may ...string) (erpc.CCAlgorithm, error) {
	if !slices.Contains(may, name) {
		return 0, usagef("--algorithm %q: want one of %s", name, strings.Join(may, ", "))
	}
	return map[string]erpc.CCAlgorithm{"timely": erpc.CCTimely, "dcqcn": erpc.CCDCQCN, "none": erpc.CCNone}[name], nil
}

// between complains about a flag outside its limits.
func between(flag string, value, low, high int) error {
	if value < low || value > high {
		return usagef("%s %d: must be %d to %d", flag, value, low, high)
	}
	return nil
}

func largeSize(size int) error { return between("--size", size, 1024, 8<<20) }

// simulated complains about a virtual time that is too short or absurdly long.
func simulated(flag string, d, least time.Duration) error {
	if d < least || d > time.Minute {
		return usagef("%s %v: must be %v to 1m", flag, d, least)
	}
	return nil
}
