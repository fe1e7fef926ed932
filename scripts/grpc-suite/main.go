package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// goTool is the go command.
var goTool = "go"

// options are those of the command line.
type options struct {
	root, dir string
	match     *regexp.Regexp
	listed    string // "only", "skip", or ""
	net       string
	jobs      int
	limit     time.Duration
	verbose   bool
}

func main() {
	o := options{}
	run := flag.String("run", "", "only tests whose name matches this")
	flag.StringVar(&o.listed, "listed", "", `tests of the lists: "only" those, or "skip" them`)
	flag.StringVar(&o.net, "net", "udp", `what servers listen on: "udp", or "shm" beside it`)
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
	if o.match, err = regexp.Compile(run); err != nil {
		return 0, err
	}
	if o.root, err = os.Getwd(); err != nil {
		return 0, err
	}
	o.dir = filepath.Join(os.TempDir(), "erpc-grpc-suite")
	if err := layOut(o.root, o.dir); err != nil {
		return 0, err
	}
	if show {
		text, err := diff(o.dir)
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
	if err := o.build(); err != nil {
		return 0, err
	}
	tests, err := findTests(filepath.Join(o.dir, "grpc/test"))
	if err != nil {
		return 0, err
	}
	return lists.judge(o.runAll(lists, tests)), nil
}
