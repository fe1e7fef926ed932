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

	"github.com/userspace-rpc/erpc/bench/peers/echo"
	"github.com/userspace-rpc/erpc/bench/peers/report"
)

// patience is how much longer than its measurement a process may take.
const patience = 30 * time.Second

// measurePeer runs one measurement in a server and a client process of its own. Cores is
// report.Pinned or report.Unpinned.
func measurePeer(ctx context.Context, p echo.Peer, s shape, cores string) (r report.Run, err error) {
	clientCore, serverCore := -1, -1
	if cores == report.Pinned {
		var ok bool
		if clientCore, serverCore, ok = twoCores(); !ok {
			return r, errors.New("processes cannot be pinned to two cores here")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.duration+patience)
	defer cancel()
	srv, err := startServer(ctx, p, s, serverCore)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	args := append([]string{"client", "--peer=" + p.Name, "--addr=" + srv.addr, fmt.Sprint("--server-pid=", srv.cmd.Process.Pid)}, s.args()...)
	var out, said bytes.Buffer
	c := exec.CommandContext(ctx, self, args...)
	c.Stdout, c.Stderr = &out, &said
	if err = start(c, clientCore); err == nil {
		err = c.Wait()
	}
	if err != nil {
		return r, fmt.Errorf("client of %s: %w: %s", p.Name, err, lastLine(&said))
	}
	if err = json.Unmarshal(out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("client of %s: %w", p.Name, err)
	}
	r.Cores = cores
	return r, nil
}

// server is a server process. It ends when its standard input ends, so it never
// outlives this process.
type server struct {
	cmd  *exec.Cmd
	in   io.Closer
	addr string
	said bytes.Buffer
}

func startServer(ctx context.Context, p echo.Peer, s shape, core int) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	v := &server{cmd: exec.CommandContext(ctx, self, append([]string{"serve", "--peer=" + p.Name}, s.args()...)...)}
	v.cmd.Stderr = &v.said
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(v.cmd, core); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the server of %s did not start: %w", p.Name, errors.Join(v.stop(), err))
	}
	v.addr = strings.TrimSpace(line)
	return v, nil
}

// stop ends the process and reaps it.
func (v *server) stop() error {
	_ = v.in.Close()
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
func runERPC(ctx context.Context, bin, bench, transport string, d time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*d+patience) // with --raw it measures more
	defer cancel()
	var said bytes.Buffer
	c := exec.CommandContext(ctx, bin, append([]string{"bench", bench, "--json", "--transport=" + transport, fmt.Sprint("--duration=", d),
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
