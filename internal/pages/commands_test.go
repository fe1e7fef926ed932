package pages

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// runner runs the commands of one document after the other.
type runner struct {
	bin    string // has the programs
	dir    string // of this document
	port   string // of this document's server
	server *exec.Cmd
}

// TestCommands does with each command of the documents what commands.txt says.
func TestCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the documents have the commands of Linux")
	}
	list := plans(t)
	used := make(map[string]bool)
	r := &runner{}
	if !testing.Short() {
		r.bin = build(t)
	}
	file, done := "", map[string]bool{}
	defer func() { r.stop() }()
	counts := map[string]int{}
	for _, c := range documents(t) {
		if strings.Contains(c.text, " -> ") {
			continue // the graph of imports
		}
		if c.file != file {
			r.stop()
			file, r.dir, r.port, done = c.file, "", freePort(t), map[string]bool{}
		}
		if done[c.text] {
			continue
		}
		done[c.text] = true
		p, ok := planOf(list, c)
		if !ok {
			t.Errorf("%s:%d: no row of commands.txt fits: %s", c.file, c.line, c.text)
			continue
		}
		used[p.pattern.String()] = true
		counts[p.how]++
		t.Run(fmt.Sprintf("%s:%d", c.file, c.line), func(t *testing.T) { r.do(t, p, c) })
	}
	for _, p := range list {
		if !used[p.pattern.String()] {
			t.Errorf("commands.txt has a row that fits no command: %s", p.pattern)
		}
	}
	t.Log(counts)
}

// do carries out a row.
func (r *runner) do(t *testing.T, p plan, c command) {
	switch p.how {
	case "target":
		checkTarget(t, c.text)
		return
	case "names":
		checkNames(t, c.text)
		return
	case "skip":
		t.Skip(p.reason)
	}
	if r.bin == "" {
		t.Skip("runs programs")
	}
	if r.dir == "" {
		r.dir = folder(t, r.bin)
	}
	switch p.how {
	case "run":
		r.run(t, c.text, 1)
	case "here":
		cmd := r.command(c.text, nil)
		cmd.Dir = top
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c.text, err, out)
		}
	case "measure":
		r.run(t, c.text, 4)
	case "serve":
		r.serve(t, c.text)
	case "client":
		if r.server == nil {
			r.serve(t, "erpc server")
		}
		r.run(t, r.addressed(c.text), 1)
	case "flags":
		r.checkFlags(t, c.text)
	case "program":
		r.program(t)
	default:
		t.Fatalf("commands.txt: %q is unknown", p.how)
	}
}

// build builds the programs that documents name.
func build(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", bin+"/",
		"./cmd/erpc", "./cmd/erpc-kv", "./cmd/erpc-index")
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// folder makes a folder that looks like a checkout after make build.
func folder(t *testing.T, bin string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pages")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"bin": bin, "contrib": root + "/contrib",
		"erpc": root + "/erpc"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// freePort returns a UDP port of the loopback that nobody has now.
func freePort(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, port, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// command returns a program of ours, or a line for the shell.
func (r *runner) command(line string, args []string) *exec.Cmd {
	if line != "" {
		args = []string{"bash", "-ec", line}
	} else {
		args[0] = filepath.Join(r.bin, args[0])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { defer cancel(); return cmd.Process.Kill() }
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "PATH="+r.bin+":"+os.Getenv("PATH"))
	return cmd
}

// run runs a line of a document; status 0 is success. A measurement of less than a second needs
// some of the processor's time then: it has several tries.
func (r *runner) run(t *testing.T, line string, tries int) {
	if program, _, _ := strings.Cut(line, " "); program == "tshark" {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") != "true" {
			t.Skip("tshark is not installed")
		}
	}
	for try := 1; ; try++ {
		out, err := r.command(line, nil).CombinedOutput()
		if err == nil {
			return
		}
		if try == tries {
			t.Errorf("%s: %v\n%s", line, err, out)
			return
		}
		t.Logf("%s: %v, try %d\n%s", line, err, try, out)
	}
}

var hosts = regexp.MustCompile(` (10\.0\.0\.\d+|127\.0\.0\.1|HOST)(:PORT|:\d+)?( |$)`)

// addressed puts the address of the document's server into a client's command.
func (r *runner) addressed(line string) string {
	line = hosts.ReplaceAllString(line, " 127.0.0.1:"+r.port+"$3")
	if !strings.Contains(line, "--count") {
		line += " --count 2" // it ends
	}
	return line
}

// serve starts a server on the document's port, and waits until it is ready.
func (r *runner) serve(t *testing.T, line string) {
	r.stopServer()
	line = regexp.MustCompile(` --addr \S+`).ReplaceAllString(line, "")
	cmd := r.command("exec "+line+" --json --addr 127.0.0.1:"+r.port, nil)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.server = cmd
	var ready struct{ Ready bool }
	text, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || json.Unmarshal([]byte(text), &ready) != nil || !ready.Ready {
		t.Fatalf("%s: not ready: %v %s", line, err, text)
	}
}

func (r *runner) stopServer() {
	if r.server != nil {
		_ = r.server.Process.Signal(os.Interrupt)
		_ = r.server.Wait()
		r.server = nil
	}
}

// stop ends a document.
func (r *runner) stop() {
	r.stopServer()
	if r.dir != "" {
		_ = os.RemoveAll(r.dir)
		r.dir = ""
	}
}

// program runs the README's first program, on another port, in a module of its own.
func (r *runner) program(t *testing.T) {
	_, code, ok := strings.Cut(read(t, "README.md"), "```go\npackage main\n")
	code, _, ends := strings.Cut(code, "```")
	if !ok || !ends {
		t.Fatal("README.md has no first program")
	}
	root, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": "package main\n" + strings.ReplaceAll(code, "31850", r.port),
		"go.mod": "module m.test/first\n\ngo 1.26\n\n" +
			"require github.com/userspace-rpc/erpc v0.0.0\n\n" +
			"replace github.com/userspace-rpc/erpc => " + root + "\n",
		"go.sum": read(t, "go.sum"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", "-mod=mod", ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "Hello, gopher!\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
