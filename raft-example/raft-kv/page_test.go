package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// page runs the commands of a document on loopback: each host of it is a folder and a port.
type page struct {
	t       *testing.T
	dir     string
	hosts   map[string]string // an address of the document: one of this machine
	running map[string]*child // by that
}

var hostPort = regexp.MustCompile(`10\.0\.0\.\d+:31850`)

// local makes a command one for this machine.
func (p *page) local(line string) []string {
	p.t.Helper()
	line = hostPort.ReplaceAllStringFunc(line, func(a string) string {
		if p.hosts[a] == "" {
			addrs, err := freeAddrs(1)
			if err != nil {
				p.t.Fatal(err)
			}
			p.hosts[a] = addrs[0]
		}
		return p.hosts[a]
	})
	args := strings.Fields(line)
	host := strings.ReplaceAll(flagOf(args, "--addr"), ":", "_")
	for i, a := range args {
		if strings.HasPrefix(a, "/") {
			args[i] = filepath.Join(p.dir, host, a)
		} else if strings.HasSuffix(a, ".bak") || strings.HasSuffix(a, ".psk") {
			args[i] = filepath.Join(p.dir, a)
		}
	}
	return args
}

func flagOf(args []string, name string) string {
	for i, a := range args[:len(args)-1] {
		if a == name {
			return args[i+1]
		}
	}
	return ""
}

// kill ends replicas as a machine that fails does.
func (p *page) kill(which func(c *child) bool) {
	for addr, c := range p.running {
		if which(c) {
			if err := c.kill(); err != nil {
				p.t.Fatal(err)
			}
			delete(p.running, addr)
		}
	}
}

// keys makes a file of keys: a new one, or one of others.
func (p *page) keys(args []string) {
	p.t.Helper()
	var text []byte
	to := slices.Index(args, ">")
	if args[0] == "openssl" {
		text = fmt.Appendf(nil, "%064x\n", rand.Uint64())
	} else {
		for _, name := range args[1:to] {
			b, err := os.ReadFile(name)
			if err != nil {
				p.t.Fatal(err)
			}
			text = append(text, b...)
		}
	}
	if err := os.WriteFile(args[to+1], text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// serve starts a replica, anew if it runs.
func (p *page) serve(args []string) {
	p.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	id, _ := strconv.ParseUint(flagOf(args, "--id"), 10, 64)
	c := &child{id: id, addr: flagOf(args, "--addr")}
	if before := p.running[c.addr]; before != nil {
		before.stop()
	}
	cmd := exec.Command(exe, append(args, "--child", "--json", fmt.Sprint("--tick=", testTick))...)
	if err := c.launch(cmd, (*exec.Cmd).Start); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.stop)
	p.running[c.addr] = c
}

// TestPage does what the page for operators says, in its order.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate-store.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t, dir: t.TempDir(), hosts: map[string]string{}, running: map[string]*child{}}
	servers := p.local("10.0.0.1:31850 10.0.0.2:31850 10.0.0.3:31850")
	ran := map[string]bool{}
	for i, block := range strings.Split(string(text), "\n```\n") {
		if i%2 == 0 {
			continue // prose
		}
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
			args := p.local(strings.TrimPrefix(strings.TrimSpace(line), "raft-kv "))
			ran[args[0]] = true
			switch {
			case args[0] == "server":
				p.serve(args)
				continue
			case args[0] == "openssl" || args[0] == "cat":
				p.keys(args)
				continue
			case args[0] == "recover":
				p.kill(func(c *child) bool { return c.addr != p.hosts["10.0.0.9:31850"] })
			case args[0] == "member" && args[1] == "remove":
				p.kill(func(c *child) bool { return strconv.FormatUint(c.id, 10) == args[2] })
			}
			if args[0] != "restore" && args[0] != "recover" && flagOf(args, "--servers") == "" {
				args = append(args, "--servers", strings.Join(servers, ","), "--timeout", "60s")
			}
			status, out, errOut := runCommand(t, args...)
			if status != cli.Done || args[0] == "get" && out != "red\n" {
				t.Fatalf("%s: %d, %q, %q", line, status, out, errOut)
			}
		}
	}
	for _, name := range []string{"server", "status", "backup", "restore", "recover", "member",
		"members", "upgrade", "tick"} {
		if !ran[name] {
			t.Errorf("the page has no command %s", name)
		}
	}
}
