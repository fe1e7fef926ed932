package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// processes are what this program is when it starts itself.
var processes = map[string]func(args []string) error{
	"serve": serveMain, "load": loadMain, "hop": hopMain, "deny": denyMain, "junk": junkMain,
	"bare": bareLoadMain, "bare-serve": bareServeMain,
}

func main() {
	if len(os.Args) > 1 {
		if os.Args[1] == "hold" {
			os.Exit(hold())
		}
		if run, ok := processes[os.Args[1]]; ok {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(labMain())
}

// tools are the commands that the lab needs, with the package of Debian that has each.
var tools = []struct{ command, pkg string }{
	{"nsenter", "util-linux"}, {"prlimit", "util-linux"}, {"taskset", "util-linux"},
	{"ip", "iproute2"}, {"tc", "iproute2"},
	{"nft", "nftables"}, {"conntrack", "conntrack"}, {"iperf3", "iperf3"}, {"ethtool", "ethtool"},
}

// able says what is missing to run the lab, if anything is.
func able() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	for _, t := range tools {
		if _, err := exec.LookPath(t.command); err != nil {
			return fmt.Errorf("%s is missing: apt-get install %s", t.command, t.pkg)
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("TUN devices: %w", err)
	}
	return nil
}

func labMain() int {
	set := flag.NewFlagSet("paths", flag.ExitOnError)
	names := set.String("cases", "", "cases or groups to run, with commas between them; all without")
	ci := set.Bool("ci", false, "the cases for CI: about a minute")
	asJSON := set.Bool("json", false, "a line of JSON for each case")
	list := set.Bool("list", false, "names the cases, runs none")
	verbose := set.Bool("v", false, "the reports of loads")
	bin := set.String("bin", "bin", "`folder` of the commands erpc and raft-kv, which some cases run")
	_ = set.Parse(os.Args[1:])
	chosen, err := choose(*names, *ci)
	if err != nil {
		fmt.Fprintln(os.Stderr, "paths:", err)
		return cli.Usage
	}
	if *list {
		for _, c := range chosen {
			fmt.Printf("%-24s %-10s %s\n", c.name, c.group, c.what)
		}
		return 0
	}
	if err := able(); err != nil {
		fmt.Fprintln(os.Stderr, "paths:", err)
		return 1
	}
	if path, err := filepath.Abs(*bin); err == nil {
		*bin = path // exec looks for what has a slash from its own folder
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bad := map[string][]string{}
	for _, c := range chosen {
		if ctx.Err() != nil {
			return 1
		}
		r := c.run(*bin, *verbose)
		r.print(os.Stdout, *asJSON)
		bad[r.Verdict] = append(bad[r.Verdict], c.name)
	}
	if !*asJSON {
		fmt.Printf("\n%d passed, %d missed their bar, %d broke, %d are void, %d are held elsewhere\n",
			len(bad[passed]), len(bad[missed]), len(bad[broke]), len(bad[void]), len(bad[elsewhere]))
		if wrong := slices.Concat(bad[missed], bad[broke]); len(wrong) > 0 {
			fmt.Println("missed or broke:", strings.Join(wrong, " "))
		}
	}
	if len(bad[missed])+len(bad[broke]) > 0 {
		return 1
	}
	return 0
}

// choose returns the cases with these names, or of these groups.
func choose(names string, ci bool) (chosen []*testCase, err error) {
	wanted := map[string]bool{}
	for _, n := range strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' }) {
		wanted[n] = false
	}
	for _, group := range allCases {
		for i := range group {
			c := &group[i]
			_, byName := wanted[c.name]
			_, byGroup := wanted[c.group]
			if byName || byGroup || len(wanted) == 0 && (!ci || c.ci) {
				chosen = append(chosen, c)
			}
			for _, n := range []string{c.name, c.group} {
				if _, ok := wanted[n]; ok {
					wanted[n] = true
				}
			}
		}
	}
	for n, known := range wanted {
		if !known {
			return nil, fmt.Errorf("no case and no group is named %q: -list has them", n)
		}
	}
	return chosen, nil
}

// testCase is a row of the lab.
type testCase struct {
	name, group string
	what        string // what befalls the path
	rows        string // numbers of the reports that it repeats
	ci          bool   // it is among the cases for CI
	turns       int    // of which the median counts; 0 is 1
	void        string // why it cannot be tried
	test        string // the test elsewhere that holds it: path, then name
	try         func(t *trial)
}

// run tries the case, as often as it says.
func (c *testCase) run(bin string, verbose bool) (r result) {
	begun := time.Now()
	r = result{Case: c.name, Group: c.group, Rows: c.rows}
	defer func() { r.Took = time.Since(begun) }()
	switch {
	case c.void != "":
		r.Verdict, r.Notes = void, []string{c.void}
		return r
	case c.test != "":
		r.Verdict, r.Notes = elsewhere, []string{c.test}
		return r
	}
	var turns [][]measure
	for range max(c.turns, 1) {
		t, err := c.turn(bin, verbose)
		r.Notes = append(r.Notes, t.notes...)
		if err != nil {
			r.Verdict, r.Notes = broke, append(r.Notes, err.Error())
			return r
		}
		turns = append(turns, t.measures)
	}
	r.Measures, r.Verdict = merge(turns), passed
	for _, m := range r.Measures {
		if m.Missed {
			r.Verdict = missed
		}
	}
	return r
}

func (c *testCase) turn(bin string, verbose bool) (t *trial, err error) {
	t = &trial{verbose: verbose, bin: bin}
	if t.dir, err = os.MkdirTemp("", "paths"); err != nil {
		return t, err
	}
	defer os.RemoveAll(t.dir)
	defer t.close()
	defer func() {
		if e := recover(); e != nil {
			b, ok := e.(broken)
			if !ok {
				b.err = fmt.Errorf("%v\n%s", e, debug.Stack())
			}
			err = b.err
		}
	}()
	t.open()
	c.try(t)
	t.audit()
	return t, nil
}
