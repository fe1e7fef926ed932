package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// result is what became of a file of tests.
type result struct {
	name string
	why  string // what failed first; "": nothing
	took time.Duration
}

// files returns the names of the files of tests, without folder and ending.
func (s *suite) files() (list []string, err error) {
	found, err := filepath.Glob(filepath.Join(s.source, "t/*.t"))
	for _, path := range found {
		name := strings.TrimSuffix(filepath.Base(path), ".t")
		if s.match.MatchString(name) {
			list = append(list, name)
		}
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s/t has no such file", s.source)
	}
	return list, err
}

// run runs files side by side, and what fails and is not listed once more, alone.
func (s *suite) run(files []string) []result {
	list := make([]result, len(files))
	free := make(chan bool, s.jobs)
	var all sync.WaitGroup
	for i, name := range files {
		free <- true
		all.Go(func() {
			begin := monotime.Now()
			list[i] = result{name: name, why: s.file(name)}
			list[i].took = monotime.Now().Sub(begin)
			<-free
		})
	}
	all.Wait()
	for i, r := range list {
		if r.why != "" && s.listed[r.name] == "" {
			fmt.Printf("again, alone: %s  %s\n", r.name, r.why)
			list[i].why = s.file(r.name)
		}
	}
	return list
}

// file runs a file, in a group of processes that ends with it, and returns why it failed, if it
// did.
func (s *suite) file(name string) (why string) {
	limit := s.limit
	if s.listed[name] != "" {
		limit = min(limit, s.short) // some wait for an answer that does not come
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "perl", "t/"+name+".t")
	cmd.Dir = s.source
	cmd.Env = append(os.Environ(), "ERPC_KV="+filepath.Join(s.dir, "erpc-kv"))
	end := group(cmd)
	cmd.Cancel = end
	cmd.WaitDelay = time.Second // for a server that the file left behind
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = end() // it may have ended
	}
	why = verdict(string(out), err)
	why = why[:min(len(why), 100)]
	if ctx.Err() != nil {
		why = fmt.Sprintf("not over within %v: %s", limit, why)
	}
	if s.verbose && why != "" {
		fmt.Printf("=== %s\n%s", name, out)
	}
	return why
}

var (
	notOk   = regexp.MustCompile(`(?m)^not ok .*$`)
	skipped = regexp.MustCompile(`(?m)^1\.\.0.*$`)
	plan    = regexp.MustCompile(`(?m)^1\.\.\d+`)
)

// verdict returns why an output in the Test Anything Protocol is that of a failure, or "".
func verdict(out string, err error) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	switch last := lines[len(lines)-1]; {
	case notOk.MatchString(out):
		return notOk.FindString(out)
	case skipped.MatchString(out):
		return skipped.FindString(out)
	case err != nil:
		return fmt.Sprintf("%v: %s", err, last)
	case !plan.MatchString(out):
		return "no plan: " + last
	}
	return ""
}
