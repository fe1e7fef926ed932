package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// What servers and benches print with --json.
type (
	readyLine = measure.ReadyLine
	result    = measure.Result
)

// some is clitest.Some.
func some[T any](n int, list ...T) []T { return clitest.Some(n, list...) }

// process is a command that runs as a process of its own.
type process struct {
	cmd      *exec.Cmd
	out      *bufio.Reader
	errLines *bufio.Reader
	in       io.WriteCloser
}

func start(t *testing.T, line string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], strings.Fields(line)...)}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errOut, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.out, p.errLines = bufio.NewReader(out), bufio.NewReader(errOut)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

// waitFor reads lines until one contains text.
func waitFor(t *testing.T, r *bufio.Reader, text string) string {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if strings.Contains(line, text) {
			return line
		}
		if err != nil {
			t.Fatalf("no line with %q: %v", text, err)
		}
	}
}

// interrupt sends Ctrl-C and returns the rest of standard output and how it ended.
func (p *process) interrupt(t *testing.T) (string, error) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.errLines) }()
	rest, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(rest), p.cmd.Wait()
}
