package failures

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// roleEnv makes the test binary a server or a client, for the processes that a cell needs.
const roleEnv = "ERPC_FAILURES_ROLE"

// patience is how long a process may take for what should take milliseconds.
const patience = 20 * time.Second

// role says what a process does.
type role struct {
	Name      string // "server" or "client"
	Library   string // of the cell: erpc, grpcerpc, grpc-go
	Transport string
	Security  string
	Listen    string   // a server's address, or the client's own
	Dir       string   // certificates, shared memory, runs
	Runs      string   // a server's file of the calls that ran
	Client    string   // the kind of the client
	Keepalive bool     // of grpc-go
	Servers   []string // of a client
	Named     bool     // the client has the server's name, not its address
}

// roles are what the test binary can be.
var roles = map[string]func(*role) error{"server": (*role).serve, "client": (*role).call}

// play plays the role that the environment gives, if there is one.
func play() (played bool, err error) {
	text := os.Getenv(roleEnv)
	if text == "" {
		return false, nil
	}
	r := new(role)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return true, err
	}
	if err := roles[r.Name](r); err != nil {
		return true, fmt.Errorf("%s: %w", r.Name, err)
	}
	return true, nil
}

// orders calls do for each line of standard input, until that ends.
func orders(do func(word, rest string)) {
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		word, rest, _ := strings.Cut(s.Text(), " ")
		do(word, rest)
	}
}

// process is a child.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when its output ends
	ended bool
}

// start starts this program in a role. Within has a function run where the process belongs.
func start(within func(func()), r role) (*process, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(exe), lines: make(chan string, 16)}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // one that is stopped, too
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	within(func() { err = p.cmd.Start() })
	if err != nil {
		return nil, err
	}
	go func() {
		for s := bufio.NewReader(out); ; {
			line, err := s.ReadString('\n')
			if err != nil {
				close(p.lines)
				return
			}
			p.lines <- strings.TrimSpace(line)
		}
	}()
	return p, nil
}

// expect waits for the next line, and returns what follows its word.
func (p *process) expect(word string) (string, error) {
	select {
	case line, ok := <-p.lines:
		w, rest, _ := strings.Cut(line, " ")
		if !ok || w != word {
			return "", fmt.Errorf("process said %q, want %q", line, word)
		}
		return rest, nil
	case <-time.After(patience):
		return "", fmt.Errorf("process did not say %q within %v", word, patience)
	}
}

// tell sends a line.
func (p *process) tell(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

// signal sends a signal to this process alone.
func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// kill ends the process as a crash does, also one that is stopped, and reaps it.
func (p *process) kill() error {
	if p.ended {
		return nil
	}
	p.ended = true
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	for range p.lines {
	}
	_ = p.cmd.Wait() // it was killed
	_ = p.in.Close()
	return err
}

// watchUntil lets callers call.
func watchUntil(t time.Time) { time.Sleep(time.Until(t)) }
