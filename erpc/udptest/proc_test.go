package udptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// hang bounds what must happen; only a test that hangs waits so long.
const hang = 120 * time.Second

// proc is a child process.
type proc struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when its output ends
	ended chan error  // what Wait gave
	quits bool        // it was told to end, or killed
	Addr  string      // of a server
}

// start starts the test binary in a role and waits until it is up.
func start(t testing.TB, r role) *proc {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithParent()
	p := &proc{t: t, name: fmt.Sprint(r.Name, " ", r.ID), cmd: cmd, lines: make(chan string, 10_000),
		ended: make(chan error, 1)}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s := bufio.NewScanner(out)
		for s.Scan() {
			p.lines <- s.Text()
		}
		close(p.lines)
		p.ended <- cmd.Wait()
	}()
	t.Cleanup(p.end)
	expect(p, "up", &p.Addr)
	return p
}

// server starts a server, client a client of the servers.
func server(t testing.TB, r role) *proc {
	t.Helper()
	r.Name = "server"
	if r.Bind == "" {
		r.Bind = bindTo(r.Name)
	}
	return start(t, r)
}

func client(t testing.TB, r role, servers ...*proc) *proc {
	t.Helper()
	r.Name = "client"
	if r.Bind == "" {
		r.Bind = bindTo(r.Name)
	}
	for _, s := range servers {
		r.Servers = append(r.Servers, s.Addr)
	}
	return start(t, r)
}

// expect waits for a line with the given word and decodes its value.
func expect(p *proc, word string, value any) {
	p.t.Helper()
	timeout := time.After(hang)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("%s ended; it should have said %q", p.name, word)
			}
			w, rest, _ := strings.Cut(line, " ")
			if w != word {
				continue
			}
			if err := json.Unmarshal([]byte(rest), value); err != nil {
				p.t.Fatalf("%s: %v in %q", p.name, err, line)
			}
			return
		case <-timeout:
			p.t.Fatalf("%s did not say %q within %v", p.name, word, hang)
		}
	}
}

// tell sends the child a line.
func (p *proc) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// begin gives a client a job.
func (p *proc) begin(j job) {
	p.t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		p.t.Fatal(err)
	}
	p.tell("job " + string(text))
}

// flowing waits until each worker of the job has had an answer.
func (p *proc) flowing() {
	p.t.Helper()
	var b bool
	expect(p, "flowing", &b)
}

// done waits for the end of the job.
func (p *proc) done() (r result) {
	p.t.Helper()
	expect(p, "done", &r)
	return r
}

// run does a job in which every call must succeed.
func (p *proc) run(j job) result {
	p.t.Helper()
	p.begin(j)
	r := p.done()
	if len(r.Errors) != 0 || j.Op == "calls" && r.OK != j.Calls {
		p.t.Errorf("%s: %+v: %d calls succeeded, errors %v", p.name, j, r.OK, r.Errors)
	}
	return r
}

func (p *proc) report() (r report) {
	p.t.Helper()
	p.tell("report")
	expect(p, "report", &r)
	return r
}

// quit ends the child in good order.
func (p *proc) quit() {
	p.t.Helper()
	p.quits = true
	p.tell("quit")
	for range p.lines { // until its output ends
	}
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("%s: %v", p.name, err)
		}
	case <-time.After(hang):
		p.t.Errorf("%s did not end", p.name)
	}
}

// kill ends the child as a crash does (kill -9) and waits until it is gone.
func (p *proc) kill() {
	p.quits = true
	_ = p.cmd.Process.Kill() // fails if it has ended
	for range p.lines {
	}
	<-p.ended
}

// end sees at the end of the test that the child is gone.
func (p *proc) end() {
	if !p.quits {
		p.kill()
	}
	_ = p.in.Close()
}
