package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// some returns a list, but with -short every n-th of it: the race detector makes processes of the
// command slow to begin, and what differs between such cases is in all of them.
func some[T any](n int, list ...T) (part []T) {
	if !testing.Short() {
		return list
	}
	for i := 0; i < len(list); i += n {
		part = append(part, list[i])
	}
	return part
}

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
