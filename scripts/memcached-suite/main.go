package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// suite is what the command line asks for, and where it is.
type suite struct {
	dir, source string // out/memcached-suite, and memcached's source in it
	match       *regexp.Regexp
	jobs        int
	limit       time.Duration // for a file
	short       time.Duration // ... that is listed
	listed      map[string]string
	verbose     bool
}

func main() {
	s := suite{}
	run := flag.String("run", "", "only files whose name matches this")
	flag.IntVar(&s.jobs, "j", 8, "files at a time; most of them wait most of the time")
	flag.DurationVar(&s.limit, "timeout", 3*time.Minute, "how long a file may take")
	flag.DurationVar(&s.short, "listed", 10*time.Second, "how long a file of listed.txt may take")
	flag.BoolVar(&s.verbose, "v", false, "print what files that fail say")
	goTool := flag.String("go", "go", "the go command")
	flag.Parse()
	status, err := s.main(*goTool, *run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "memcached-suite:", err)
		os.Exit(2)
	}
	os.Exit(status)
}

func (s *suite) main(goTool, run string) (status int, err error) {
	if s.match, err = regexp.Compile(run); err != nil {
		return 0, err
	}
	root, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	s.listed, err = readList(filepath.Join(root, "scripts/memcached-suite/listed.txt"))
	if err != nil {
		return 0, err
	}
	s.dir = filepath.Join(root, "out/memcached-suite")
	s.source = filepath.Join(s.dir, "memcached")
	if err := s.fetch(); err != nil {
		return 0, err
	}
	if err := s.build(goTool); err != nil {
		return 0, err
	}
	files, err := s.files()
	if err != nil {
		return 0, err
	}
	begin := monotime.Now()
	status = judge(s.run(files), s.listed)
	fmt.Printf("in %.0f s\n", monotime.Now().Sub(begin).Seconds())
	return status, nil
}

// build puts what the tests start where they look for it.
func (s *suite) build(goTool string) error {
	for to, from := range map[string]string{filepath.Join(s.dir, "erpc-kv"): "./cmd/erpc-kv",
		filepath.Join(s.source, "memcached-debug"): "./scripts/memcached-suite/memcached"} {
		if out, err := exec.Command(goTool, "build", "-o", to, from).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}
