package securetest

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/security/sectest"
)

// Reload checks that a server of the command takes new keys from its files when it gets SIGHUP, and
// when they change, and never such as are not whole. Env makes the test's binary the command, and
// server is its command line. At makes of the server's address what names it to clients.
func (c *Command) Reload(t *testing.T, env, server []string, at func(addr string) string) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGHUP")
	}
	t.Run("PSK", func(t *testing.T) {
		flag := PSK(t, "5")
		file := strings.TrimPrefix(flag, "--psk-file=")
		p := start(t, env, append(server, flag))
		addr := at(p.addr)
		c.works(t, PSK(t, "5"), addr)
		p.signal(syscall.SIGHUP)
		p.says("have not changed") // which is said to those who ask only
		write(t, file, strings.Repeat("6", 64))
		p.signal(syscall.SIGHUP)
		p.says("new keys are in use")
		c.refused(t, "keys differ", PSK(t, "5"), addr)
		c.works(t, PSK(t, "6"), addr)
		write(t, file, strings.Repeat("7", 64)+"\n"+strings.Repeat("6", 64))
		p.says("new keys are in use")
		c.works(t, PSK(t, "6"), addr)
		c.works(t, PSK(t, "7"), addr)
		write(t, file, "7")
		p.says("the keys stay as they are")
		c.works(t, PSK(t, "7"), addr)
	})
	t.Run("TLS", func(t *testing.T) {
		before, after := sectest.Files(t.TempDir(), "127.0.0.1"), sectest.Files(t.TempDir(), "127.0.0.1")
		flags := sectest.Files(t.TempDir(), "127.0.0.1")
		copyFiles(t, flags, before)
		p := start(t, env, append(server, flags...))
		addr := at(p.addr)
		c.works(t, append(before, addr)...)
		copyFiles(t, flags[:1], after)
		p.signal(syscall.SIGHUP)
		p.says("private key does not match public key")
		c.works(t, append(before, addr)...)
		copyFiles(t, flags, after)
		p.signal(syscall.SIGHUP)
		p.says("new keys are in use")
		c.refused(t, "unknown authority", append(before, addr)...)
		c.works(t, append(after, addr)...)
		copyFiles(t, flags, before)
		p.says("new keys are in use")
		c.works(t, append(before, addr)...)
	})
}

// copyFiles replaces the files that flags name by those that others name.
func copyFiles(t *testing.T, flags, from []string) {
	t.Helper()
	for i, flag := range flags {
		_, name, _ := strings.Cut(flag, "=")
		_, source, _ := strings.Cut(from[i], "=")
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		write(t, name, string(text))
	}
}

// write replaces a file at once.
func write(t *testing.T, name, text string) {
	t.Helper()
	err := os.WriteFile(name+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// process is a server in a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	log  *bufio.Scanner
}

// start starts a server that ends with the test.
func start(t *testing.T, env, args []string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // it never says some word
	HearHangUp()
	p := &process{t: t, cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.log = bufio.NewScanner(log)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = p.cmd.Wait()
	})
	var ready struct {
		Addr  string
		Addrs []string
	}
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	p.addr = append(ready.Addrs, ready.Addr)[0]
	return p
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// says waits for a line with a text.
func (p *process) says(want string) {
	p.t.Helper()
	for p.log.Scan() {
		if strings.Contains(p.log.Text(), want) {
			return
		}
	}
	p.t.Fatalf("the server has ended and never said %q", want)
}

// HearHangUp makes processes that are started from now on hear SIGHUP, also if this one was started
// by nohup, which they would inherit: a signal that is caught is no longer ignored by children.
func HearHangUp() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) }
