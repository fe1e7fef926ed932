package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/cmd/erpc/simlab"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

type simCmds struct {
	Incast simIncastCmd `cmd:"" help:"Many clients send large requests to one server: Table 5 of the paper."`
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

// simulated complains about a virtual time that is too short or absurdly long.
func simulated(flag string, d, least time.Duration) error {
	if d < least || d > time.Minute {
		return usagef("%s %v: must be %v to 1m", flag, d, least)
	}
	return nil
}
