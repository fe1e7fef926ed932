package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// goTool is the go command.
var goTool = "go"

// options are those of the command line.
type options struct {
	root, dir string
	name      string // the suite's
	suite     suite
	match     *regexp.Regexp
	listed    string // "only", "skip", or ""
	net       string
	loss      float64
	jobs      int
	limit     time.Duration
	verbose   bool
}

func main() {
	o := options{}
	flag.StringVar(&o.name, "suite", "test",
		"what runs: "+strings.Join(slices.Sorted(maps.Keys(suites)), ", "))
	run := flag.String("run", "", "only tests whose name matches this")
	flag.StringVar(&o.listed, "listed", "", `tests of the lists: "only" those, or "skip" them`)
	flag.StringVar(&o.net, "net", "udp", `what servers listen on: "udp", or "shm" beside it`)
	flag.Float64Var(&o.loss, "loss", 0, "share of packets that servers lose, each way, 0 to 1")
	flag.IntVar(&o.jobs, "j", 2, "tests at a time")
	flag.DurationVar(&o.limit, "timeout", 40*time.Second, "how long a test may take")
	flag.BoolVar(&o.verbose, "v", false, "print what tests that fail say")
	show := flag.Bool("diff", false, "print what the overlay changes in grpc-go, and run nothing")
	flag.StringVar(&goTool, "go", goTool, "the go command")
	flag.Parse()
	status, err := o.main(*run, *show)
	if err != nil {
		fmt.Fprintln(os.Stderr, "grpc-suite:", err)
		os.Exit(2)
	}
	os.Exit(status)
}

func (o *options) main(run string, show bool) (status int, err error) {
	if o.suite = suites[o.name]; o.suite.run == nil {
		return 0, fmt.Errorf("there is no suite %q", o.name)
	}
	if o.match, err = regexp.Compile(run); err != nil {
		return 0, err
	}
	if o.root, err = os.Getwd(); err != nil {
		return 0, err
	}
	o.dir = filepath.Join(os.TempDir(), "erpc-grpc-suite")
	if err := layOut(o.root, o.dir, o.suite); err != nil {
		return 0, err
	}
	if show {
		text, err := diff(o.dir, o.dir)
		_, _ = os.Stdout.Write(text)
		return 0, err
	}
	if err := checkDiff(o.dir); err != nil {
		return 0, err
	}
	lists, err := readLists(filepath.Join(o.root, "scripts/grpc-suite"))
	if err != nil {
		return 0, err
	}
	lists = lists.over(o.net)
	all, err := o.suite.run(o, lists)
	if err != nil {
		return 0, err
	}
	if o.name != "test" {
		for i := range all {
			all[i].name = o.name + ":" + all[i].name
		}
	}
	return lists.judge(all), nil
}
