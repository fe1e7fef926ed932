package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Child is this program in a process of its own. It ends when its standard input ends, and a
// terminal's Ctrl-C does not reach it.
type Child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  strings.Builder // its standard error
}

// StartChild starts this program with arguments and with env added to the environment. It waits
// until the child has printed a JSON object, which it decodes into ready. If it does not, the error
// has what the child said.
func StartChild(args, env []string, ready any) (*Child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: exec.Command(exe, args...)}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = &c.said
	OwnGroup(c.cmd)
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(out).Decode(ready); err != nil {
		err = errors.Join(err, c.Stop())
		return nil, fmt.Errorf("the server did not start: %w; %s", err, c.said.String())
	}
	return c, nil
}

// Stop ends the child in peace, and reaps it.
func (c *Child) Stop() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }
