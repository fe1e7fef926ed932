package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// patience is how much longer than its measurement a process may take.
const patience = 30 * time.Second

// spot says where a process runs: on one core, or on any if that is negative; in which network
// namespace, or in this process's without one; and with which GOMAXPROCS, or the default if it
// is 0.
type spot struct {
	core  int
	net   *os.File
	procs int
}

// env is the environment of a process there; nil is this process's.
func (s spot) env() []string {
	if s.procs == 0 {
		return nil
	}
	return append(os.Environ(), fmt.Sprint("GOMAXPROCS=", s.procs))
}

// core leaves a process in this process's network.
func core(n int) spot { return spot{core: n} }

// place says where client and server run.
type place struct{ client, server spot }

// anywhere leaves both to the kernel.
var anywhere = place{core(-1), core(-1)}

// twoCores returns the first two cores that this process may use.
func twoCores() (client, server int, ok bool) {
	list := cli.AllowedCores()
	if len(list) < 2 {
		return 0, 0, false
	}
	return list[0], list[1], true
}

// measurePeer runs one measurement in a server and a client process of its own. Cores is
// report.Pinned or report.Unpinned.
func measurePeer(ctx context.Context, p echo.Peer, s shape, cores string) (report.Run, error) {
	at := anywhere
	if cores == report.Pinned {
		client, server, ok := twoCores()
		if !ok {
			return report.Run{}, errors.New("processes cannot be pinned to two cores here")
		}
		at = place{core(client), core(server)}
	}
	t, err := measureAt(ctx, p, s, at)
	t.Cores = cores
	return t.Run, err
}

// measureAt is measurePeer at a place. The client gets the flags too.
func measureAt(ctx context.Context, p echo.Peer, s shape, at place, flags ...string) (t report.Turn,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, s.duration+patience)
	defer cancel()
	serve := append([]string{"serve", "--peer=" + p.Name}, s.args()...)
	srv, err := startChild(ctx, at.server, serve...)
	if err != nil {
		return t, fmt.Errorf("the server of %s did not start: %w", p.Name, err)
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	client := append([]string{"client", "--peer=" + p.Name, "--addr=" + srv.line, srv.pidFlag()},
		s.args()...)
	if err := runChild(ctx, at.client, &t, append(client, flags...)...); err != nil {
		return t, fmt.Errorf("client of %s: %w", p.Name, err)
	}
	return t, nil
}

// runChild runs a command of this program to its end, and decodes the JSON that it printed.
func runChild(ctx context.Context, at spot, result any, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var out, said bytes.Buffer
	c := exec.CommandContext(ctx, self, args...)
	c.Stdout, c.Stderr, c.Env = &out, &said, at.env()
	if err = start(c, at); err == nil {
		err = c.Wait()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(&said))
	}
	return json.Unmarshal(out.Bytes(), result)
}

// child is a process of this program that prints a line once it is ready. It ends when its
// standard input ends, so it never outlives this process.
type child struct {
	cmd  *exec.Cmd
	in   io.Closer
	out  *bufio.Reader
	line string
	said bytes.Buffer

	killed bool
}

// startChild returns once the child is ready.
func startChild(ctx context.Context, at spot, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	v := &child{cmd: exec.CommandContext(ctx, self, args...)}
	v.cmd.Stderr, v.cmd.Env = &v.said, at.env()
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(v.cmd, at); err != nil {
		return nil, err
	}
	v.out = bufio.NewReader(out)
	if v.line, err = v.readLine(); err != nil {
		return nil, errors.Join(v.stop(), err)
	}
	return v, nil
}

func (v *child) readLine() (string, error) {
	line, err := v.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// end is stop, and decodes the JSON that the process says last.
func (v *child) end(result any) error {
	_ = v.in.Close()
	line, err := v.readLine()
	if err == nil {
		err = json.Unmarshal([]byte(line), result)
	}
	return errors.Join(err, v.stop())
}

// pidFlag tells a client whose CPU time counts with its own.
func (v *child) pidFlag() string { return fmt.Sprint("--server-pid=", v.cmd.Process.Pid) }

// kill ends the process at once, and reaps it; stop has nothing to do then.
func (v *child) kill() error {
	if err := v.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = v.cmd.Wait() // it was killed
	v.killed = true
	return nil
}

// stop ends the process and reaps it.
func (v *child) stop() error {
	_ = v.in.Close()
	if v.killed {
		return nil
	}
	if err := v.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(&v.said))
	}
	return nil
}

// erpcName is the event loop over a transport, in tables.
func erpcName(transport string) string { return "erpc " + transport }

// measureERPC runs one measurement of bin/erpc, which starts its own server process.
func measureERPC(ctx context.Context, bin, transport string, s shape) (r report.Run, err error) {
	bench, args := "rate", []string{fmt.Sprint("--window=", s.window)}
	if s.window == 1 {
		bench, args = "latency", nil
	}
	args = append(args, fmt.Sprint("--size=", s.size), fmt.Sprint("--resp-size=", s.resp))
	out, err := runERPC(ctx, bin, bench, transport, s.duration, args...)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("%s bench %s: %w", bin, bench, err)
	}
	r.Peer, r.Cores = erpcName(transport), report.Pinned
	r.SetGbps()
	if r.Errors > 0 {
		return r, fmt.Errorf("%s: %d RPCs failed", r.Peer, r.Errors)
	}
	return r, nil
}

// runERPC runs bin/erpc bench and returns the object that it printed.
func runERPC(ctx context.Context, bin, bench, transport string, d time.Duration,
	args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*d+patience) // with --raw it measures more
	defer cancel()
	var said bytes.Buffer
	c := exec.CommandContext(ctx, bin,
		append([]string{"bench", bench, "--json", "--transport=" + transport,
			fmt.Sprint("--duration=", d),
			fmt.Sprint("--gc=", gcPercent)}, args...)...)
	c.Stderr = &said
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // so that it ends its server
	c.WaitDelay = 5 * time.Second
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("erpc bench %s over %s: %w: %s", bench, transport, err, lastLine(&said))
	}
	return out, nil
}

// findERPC complains in time if the binary is not there.
func findERPC(bin string) error {
	if _, err := exec.LookPath(bin); err != nil {
		return usagef("--erpc %s: %v; make build makes it", bin, err)
	}
	return nil
}
