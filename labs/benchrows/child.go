package benchrows

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
)

// Cores of servers and clients, where there are two.
const (
	ServerCore = 0
	ClientCore = 1
)

// Child is a process that ends with its standard input.
type Child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	said  words
	out   *bufio.Reader
}

// words is the output of a process. It may say more while it is read.
type words struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// StartChild starts a program, whose errors are kept for [Child.Address]. The caller must Stop
// it.
func StartChild(name string, args ...string) (*Child, error) {
	c := &Child{name: name, cmd: exec.Command(name, args...)}
	c.cmd.Stderr = &c.said
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdin, c.out = in, bufio.NewReader(out)
	return c, c.cmd.Start()
}

// Address waits for the address that a server prints, in quotes.
func (c *Child) Address() (addr string, err error) {
	if err := json.NewDecoder(c.out).Decode(&addr); err != nil {
		return "", fmt.Errorf("%s did not start: %w: %s", c.name, err, c.said.String())
	}
	return addr, nil
}

// Pid returns the number of the process.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Stop ends it in peace.
func (c *Child) Stop() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }

// ParentEnds returns a function for an event loop of the child itself: it reports whether standard
// input has ended. When it ends wake is called.
func ParentEnds(wake func()) func() bool {
	var ended atomic.Bool
	go UntilParentEnds(func() { ended.Store(true); wake() })
	return ended.Load
}

// UntilParentEnds calls end when standard input ends: for the child itself.
func UntilParentEnds(end func()) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	end()
}
