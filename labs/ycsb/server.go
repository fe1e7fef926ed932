package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/labs/ycsb/peer"
	"github.com/userspace-rpc/erpc/labs/ycsb/run"
	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	"github.com/userspace-rpc/erpc/ycsb"
)

// childFlag in the environment makes serve end with its standard input, and answer each line of it
// with its CPU time in nanoseconds.
const childFlag = "YCSB_CHILD"

// serve serves a store until it is interrupted.
func serve(ctx context.Context, o *options, out io.Writer) (err error) {
	if o.store == "pebble" && o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "ycsb"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	}
	s, err := store.Open(store.Config{
		Kind: o.store, Schema: o.schema, Records: max(o.records, o.preload), Dir: o.dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := store.Load(s, o.schema, o.preload); err != nil {
		return err
	}
	srv, err := peer.Listen(o.peer, o.addr, &store.Service{Store: s})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve() }()
	fmt.Fprintln(out, srv.Addr)
	gone := make(chan struct{})
	if os.Getenv(childFlag) != "" {
		go func() { answer(os.Stdin, out); close(gone) }()
	}
	select {
	case <-ctx.Done():
	case <-gone:
	case err := <-served:
		return errors.Join(err, srv.Close())
	}
	err = srv.Close()
	<-served // what Serve says once it is closed
	return err
}

// answer answers each line with the CPU time, until there is none.
func answer(in io.Reader, out io.Writer) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintln(out, int64(run.CPUTime()))
	}
}

// child is a server in a process of its own.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	addr  string
}

// startServer starts a server that has loaded its records.
func startServer(o *options, over string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "-store=" + o.store, "-peer=" + over,
		fmt.Sprint("-preload=", o.records), fmt.Sprint("-fields=", o.schema.Fields),
		fmt.Sprint("-field-bytes=", o.schema.FieldBytes)}
	if o.dir != "" {
		args = append(args, "-dir="+o.dir)
	}
	c := &child{cmd: exec.Command(self, args...)}
	c.cmd.Env = append(os.Environ(), childFlag+"=1")
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(out)
	if c.addr, err = c.line(); err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), c.stop())
	}
	return c, nil
}

func (c *child) line() (string, error) {
	if !c.lines.Scan() {
		return "", errors.Join(io.ErrUnexpectedEOF, c.lines.Err())
	}
	return strings.TrimSpace(c.lines.Text()), nil
}

// cpu returns the CPU time of the server; an error if it has died.
func (c *child) cpu() (time.Duration, error) {
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		return 0, err
	}
	text, err := c.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(n), err
}

// stop ends the server and reaps it.
func (c *child) stop() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

// load inserts the records over the network.
func load(ctx context.Context, o *options, out io.Writer) error {
	c, err := peer.Dial(ctx, o.peer, o.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	begin, said := time.Now(), time.Now()
	var key []byte
	record := make([]byte, o.schema.Bytes())
	for i := range o.records {
		key = ycsb.AppendKey(key[:0], i)
		o.schema.Fill(record, key, 0)
		if err := c.Insert(ctx, key, record); err != nil {
			return fmt.Errorf("%d records are loaded, then: %w", i, err)
		}
		if time.Since(said) > time.Second {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "%d of %d records\n", i, o.records)
		}
	}
	took := time.Since(begin).Round(time.Millisecond)
	_, err = fmt.Fprintf(out, "%d records in %v\n", o.records, took)
	return err
}
