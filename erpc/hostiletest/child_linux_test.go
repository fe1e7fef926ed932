package hostiletest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// child is a process in a role.
type child struct {
	l     *lab
	role  role
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when its output ends
	ended chan error  // what Wait gave
	over  bool
}

// spawn starts the test binary in a role and waits until it is up. It returns the rest of the
// line that says so.
func spawn(l *lab, dir string, r role) (*child, string) {
	l.Helper()
	name := fmt.Sprint(r.Name, "-", r.Incarnation)
	r.Log = filepath.Join(dir, name)
	text, err := json.Marshal(r)
	if err != nil {
		l.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		l.Fatal(err)
	}
	c := &child{
		l: l, role: r, name: name, cmd: exec.Command(exe), lines: make(chan string, 100),
		ended: make(chan error, 1),
	}
	c.cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		l.Fatal(err)
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		l.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if !c.over {
			c.kill()
		}
	})
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
		close(c.lines)
		c.ended <- c.cmd.Wait()
	}()
	return c, c.expect("up")
}

// expect waits for a line that begins with word and returns its rest.
func (c *child) expect(word string) string {
	c.l.Helper()
	timeout := time.After(2 * patience) // the child has patience too
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.l.Fatalf("seed %d: %s ended; it should have said %q", c.l.seed, c.name, word)
			}
			if first, rest, _ := strings.Cut(line, " "); first == word {
				return rest
			}
		case <-timeout:
			c.l.Fatalf("seed %d: %s never said %q", c.l.seed, c.name, word)
		}
	}
}

func (c *child) tell(line string) {
	c.l.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.l.Fatalf("seed %d: %s: %v", c.l.seed, c.name, err)
	}
}

// signal sends SIGSTOP or SIGCONT.
func (c *child) signal(s syscall.Signal) {
	c.l.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.l.Fatalf("seed %d: %s: %v", c.l.seed, c.name, err)
	}
}

// kill ends the child as a crash does. One that had ended by itself fails the test.
func (c *child) kill() {
	c.over = true
	if err := c.cmd.Process.Kill(); err != nil {
		c.l.Errorf("seed %d: %s ended by itself: %v", c.l.seed, c.name, err)
	}
	c.reap()
}

// quit ends the child in good order.
func (c *child) quit() {
	c.l.Helper()
	c.over = true
	c.tell("quit")
	made := ""
	if c.role.Name == "client" {
		made = c.expect("made")
	}
	if err := c.reap(); err != nil {
		c.l.Errorf("seed %d: %s: %v", c.l.seed, c.name, err)
	}
	if n := fmt.Sprint(len(c.records())); made != "" && made != n {
		c.l.Errorf("seed %d: %s made %s calls, %s have ended", c.l.seed, c.name, made, n)
	}
}

// reap waits until the child is gone. The test's own timeout bounds it.
func (c *child) reap() error {
	for range c.lines {
	}
	_ = c.in.Close()
	return <-c.ended
}

// records returns what the child has logged.
func (c *child) records() []record {
	c.l.Helper()
	b, err := os.ReadFile(c.role.Log)
	if err != nil || len(b)%recordSize != 0 {
		c.l.Fatalf("%s: %d bytes of log, %v", c.name, len(b), err)
	}
	all := make([]record, 0, len(b)/recordSize)
	for ; len(b) > 0; b = b[recordSize:] {
		all = append(all, record{
			binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]),
			binary.LittleEndian.Uint32(b[12:]),
		})
	}
	return all
}
