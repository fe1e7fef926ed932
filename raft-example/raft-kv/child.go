package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// child is a replica in a process of its own. It ends when its standard input ends.
type child struct {
	id    uint64
	addr  string
	dir   string
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	mu    sync.Mutex
	said  strings.Builder
}

// Write takes the child's standard error.
func (c *child) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.Len() < 1<<16 {
		c.said.Write(b)
	}
	return len(b), nil
}

// fleet is a cluster of children on loopback.
type fleet struct {
	exe      string // of raft-kv; tests run themselves
	net      netFlags
	roles    roleFlags
	tick     time.Duration
	children []*child
}

// newFleet plans n replicas; with a folder they are durable.
func newFleet(net netFlags, n int, dir string, tick time.Duration, addrs []string) (*fleet, error) {
	exe, err := os.Executable()
	if err == nil {
		err = net.Load() // here one line says what is wrong with them
	}
	if err != nil {
		return nil, err
	}
	f := &fleet{exe: exe, net: net, tick: tick}
	for i := range n {
		c := &child{id: uint64(i + 1), addr: addrs[i]}
		if dir != "" {
			c.dir = filepath.Join(dir, strconv.Itoa(i+1))
		}
		f.children = append(f.children, c)
	}
	return f, nil
}

func (f *fleet) addrs() (list []string) {
	for _, c := range f.children {
		list = append(list, c.addr)
	}
	return list
}

// start starts one replica and waits until it listens.
func (f *fleet) start(c *child) error {
	var peers []string
	for _, p := range f.children {
		peers = append(peers, fmt.Sprintf("%d=%s", p.id, p.addr))
	}
	args := []string{"server", "--child", "--json", fmt.Sprint("--id=", c.id), "--addr=" + c.addr,
		"--peers=" + strings.Join(peers, ","), "--transport=" + f.net.Transport,
		fmt.Sprint("--cluster=", f.net.Cluster), fmt.Sprint("--tick=", f.tick)}
	if c.dir != "" {
		args = append(args, "--dir="+c.dir)
	}
	args = append(append(args, f.net.Args()...), f.roles.args()...)
	return c.launch(exec.Command(f.exe, args...), (*exec.Cmd).Start)
}

// launch starts the replica's process with run and waits until it listens.
func (c *child) launch(cmd *exec.Cmd, run func(*exec.Cmd) error) error {
	cmd.Stderr = c
	cli.OwnGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := run(cmd); err != nil {
		return err
	}
	c.cmd, c.stdin, c.ended = cmd, stdin, make(chan struct{})
	var r ready
	derr := json.NewDecoder(out).Decode(&r)
	ended := c.ended
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		close(ended)
	}()
	if derr != nil || !r.Ready {
		c.stop()
		return fmt.Errorf("replica %d did not start: %s", c.id, cli.OneLine(errors.New(c.text())))
	}
	return nil
}

func (c *child) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.String()
}

func (f *fleet) startAll() error {
	for _, c := range f.children {
		if err := f.start(c); err != nil {
			return errors.Join(err, f.stopAll())
		}
	}
	return nil
}

// kill is kill -9.
func (c *child) kill() error {
	err := c.cmd.Process.Kill()
	<-c.ended
	return err
}

// stop ends the process in peace.
func (c *child) stop() {
	if c.cmd != nil {
		_ = c.stdin.Close()
		<-c.ended
	}
}

func (f *fleet) stopAll() error {
	for _, c := range f.children {
		c.stop()
	}
	return nil
}
