package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// child is a server process that this one started. It ends when its standard input
// ends, so it outlives this process in no case.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	Addrs []string
	ended chan struct{} // closed when the process has been reaped
	err   error         // how it ended; read after ended
	said  strings.Builder
}

// StartServer starts `erpc server` on loopback, or across the flags' link, with the given extra
// arguments and waits until it is ready.
func StartServer(f *NetFlags, threads int, pin string, extra ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"server", "--child", "--json", "--threads=" + strconv.Itoa(threads),
		"--transport=" + f.Transport, "--mtu=" + strconv.Itoa(f.MTU),
		"--credits=" + strconv.Itoa(f.Credits),
		"--slots=" + strconv.Itoa(f.Slots), "--cc=" + f.CC,
		"--link-rate=" + strconv.FormatFloat(f.LinkRate, 'g', -1, 64),
		"--pin=" + pin, "--gc=" + strconv.Itoa(f.GC),
		"--xdp-mode=" + f.XDPMode, "--wait=" + f.Wait}
	if f.OwnCore {
		args = append(args, "--own-core")
	}
	if f.NoGSO {
		args = append(args, "--no-gso")
	}
	if f.Portable {
		args = append(args, "--portable")
	}
	if f.NoHugepages {
		args = append(args, "--no-hugepages")
	}
	if f.Profile != "" {
		args = append(args, "--cpuprofile="+f.Profile+".server")
	}
	args = append(args, f.serverArgs()...)
	args = append(args, f.Flags.Args()...)
	for _, name := range f.switches.list() {
		args = append(args, "--"+name)
	}
	args = slices.DeleteFunc(append(args, extra...), unset)
	c := &child{cmd: exec.Command(self, args...), ended: make(chan struct{})}
	c.cmd.Stderr = &c.said
	cli.OwnGroup(c.cmd)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := f.serverSide(c.cmd.Start); err != nil {
		return nil, err
	}
	var ready ReadyLine
	derr := json.NewDecoder(out).Decode(&ready)
	go func() {
		_, _ = io.Copy(io.Discard, out)
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	if derr != nil || len(ready.Addrs) == 0 {
		err := c.Stop()
		return nil, fmt.Errorf("the server process did not start: %s",
			cli.OneLine(errors.Join(err, derr)))
	}
	c.Addrs = ready.Addrs
	return c, nil
}

// unset tells that a flag has nothing behind it, as that of an empty setting.
func unset(arg string) bool { return strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, "=") }

// PID is the number of the process.
func (c *child) PID() int { return c.cmd.Process.Pid }

// Stop ends the process and reaps it. It is safe to call twice.
func (c *child) Stop() error {
	_ = c.stdin.Close() // the server ends by itself, and may write its profile
	<-c.ended
	if c.err == nil {
		return nil
	}
	return c.failure()
}

// failure says how the process ended, in its own words if it said any.
func (c *child) failure() error {
	said := strings.TrimPrefix(cli.OneLine(errors.New(c.said.String())), "erpc: ")
	if said == "" {
		said = fmt.Sprint(c.err)
	}
	return fmt.Errorf("the server process ended: %s", said)
}
