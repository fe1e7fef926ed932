package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/debug"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// askFor is how long a debug socket may take to answer.
const askFor = 5 * time.Second

// target names a running program.
type target struct {
	Program string `arg:"" optional:"" help:"Process number or debug socket; default the only one."`
}

// socket returns the path of the program's debug socket.
func (t target) socket() (string, error) {
	if _, err := strconv.ParseUint(t.Program, 10, 31); err == nil {
		return filepath.Join(debug.Dir(), t.Program+".sock"), nil
	}
	if t.Program != "" {
		return t.Program, nil
	}
	switch found := debug.Find(); len(found) {
	case 0:
		return "", errors.New(`no running program of this user has a debug socket: start "erpc ` +
			`server --debug", or open one with debug.Listen`)
	case 1:
		return found[0], nil
	default:
		var pids []string
		for _, f := range found {
			pids = append(pids, strings.TrimSuffix(filepath.Base(f), ".sock"))
		}
		return "", cli.Usagef("several programs have a debug socket: name one of %s",
			strings.Join(pids, ", "))
	}
}

// open connects to the program.
func (t target) open(ctx context.Context) (*debug.Client, debug.About, error) {
	path, err := t.socket()
	if err != nil {
		return nil, debug.About{}, err
	}
	c := debug.NewClient(path)
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	about, err := c.About(ctx)
	if err != nil {
		c.Close()
		return nil, about, explain(err)
	}
	return c, about, nil
}

// explain adds to an error of a debug socket why that may be.
func explain(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: a debug socket answers its own user only, and 16 peers at a time", err)
	}
	return err
}
