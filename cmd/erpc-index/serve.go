package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index"
	ixserver "github.com/userspace-rpc/erpc/index/server"
	"github.com/userspace-rpc/erpc/index/snapshot"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/filelock"
)

type serveCmd struct {
	netFlags
	Addr     string        `default:"127.0.0.1:31860" help:"Where to listen." placeholder:"ADDR"`
	Scan     string        `default:"workers" help:"${scan_help}" placeholder:"WHERE"`
	Workers  int           `default:"2" help:"Workers at most; default ${default}." placeholder:"N"`
	OneByOne bool          `help:"Look each GET up by itself."`
	Pin      int           `default:"-1" help:"Core of the event loop; -1: any." placeholder:"CORE"`
	Snapshot string        `help:"${snapshot_help}" placeholder:"FILE"`
	Every    time.Duration `help:"Write it this often too, if it has changed." placeholder:"TIME"`
	GC       int           `name:"gc" default:"100" help:"GOGC." placeholder:"PERCENT"`
	Memory   int           `name:"max-memory" help:"${max_memory_help}" placeholder:"MIB"`
	Plain    bool          `name:"no-huge-pages" help:"Don't ask for huge pages for the index."`
	logFlags
	Child bool `hidden:"" help:"End with standard input."`
}

// ready is printed with --json when the server listens.
type ready struct {
	Ready bool   `json:"ready"`
	Addr  string `json:"addr"`
	Keys  int    `json:"keys"`
}

func (c *serveCmd) check() error {
	switch {
	case c.Scan != "workers" && c.Scan != "loop":
		return cli.Usagef("--scan %s: want workers or loop", c.Scan)
	case c.Every < 0:
		return cli.Usagef("--every %v: must not be negative", c.Every)
	case c.Every > 0 && c.Snapshot == "":
		return cli.Usagef("--every %v: names no file: give --snapshot FILE too", c.Every)
	case c.Every > 0 && c.Log != "":
		return cli.Usagef("--every %v: --log keeps all, and FILE is only read: leave --every out",
			c.Every)
	case c.Memory < 0 || c.Memory > 1<<24:
		return cli.Usagef("--max-memory %d: want 0, for no limit, to 2^24", c.Memory)
	case c.Workers < 1:
		return cli.Usagef("--workers %d: want at least 1", c.Workers)
	}
	return c.logFlags.check()
}

// Run implements the subcommand.
func (c *serveCmd) Run(e *cli.Env) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if err := c.Load(); err != nil {
		return err
	}
	debug.SetGCPercent(c.GC)
	if !c.Plain {
		index.HugePages()
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	m, err := c.load(e)
	if err != nil {
		return err
	}
	log, err := c.open(e, m, c.Snapshot)
	if err != nil {
		return err
	}
	if log != nil {
		defer func() { err = errors.Join(err, log.Close()) }()
	}
	cfg := erpc.Config{NoHugepages: true, Workers: c.Workers}
	c.Apply(&cfg)
	srv, err := erpc.NewServer(cfg)
	if err != nil {
		return err
	}
	how := ixserver.Config{ScanInLoop: c.Scan == "loop", OneByOne: c.OneByOne}
	if c.Memory > 0 {
		how.Memory = ixserver.NewMemory(uint64(c.Memory) << 20)
	}
	s := ixserver.NewDurable(m, log, how)
	k := &keeper{env: e, m: m, changes: s.Changes}
	if log == nil {
		k.file = c.Snapshot
		k.was, _ = os.Stat(c.Snapshot) // nobody else writes it: see lock
	}
	if err := s.Handle(srv); err != nil {
		return errors.Join(err, srv.Close())
	}
	tr, err := c.listen(c.Addr)
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	ended := make(chan error, 1)
	go func() {
		if c.Pin >= 0 {
			runtime.LockOSThread() // the thread ends with the goroutine
			if err := cli.PinThread(c.Pin); err != nil {
				fmt.Fprintf(e.Err, "core %d: %v\n", c.Pin, err)
			}
		}
		ended <- srv.Serve(tr)
	}()
	addr := tr.LocalAddr().String()
	err = e.Print(c.JSON, ready{true, addr, m.Len()}, "serving %d keys on %v", m.Len(), addr)
	if err == nil {
		err = c.wait(e, k, ended)
	}
	return errors.Join(err, srv.Close(), k.save())
}

// lock keeps others from the snapshot for as long as this server runs: what it stores would be lost
// when they write theirs. The snapshot itself is replaced, so that a file beside it is locked.
func (c *serveCmd) lock() (unlock func() error, err error) {
	if c.Snapshot == "" {
		return func() error { return nil }, nil
	}
	l, err := filelock.Take(c.Snapshot + ".lock")
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return nil, fmt.Errorf("--snapshot %s is in use by %s: end that server, or name another file",
			c.Snapshot, held.Holder)
	}
	if err != nil {
		return nil, fmt.Errorf("--snapshot %s: %w", c.Snapshot, err)
	}
	return l.Release, nil
}

// load starts from the snapshot, if there is one, and says what that means.
func (c *serveCmd) load(e *cli.Env) (*index.Map, error) {
	if c.Snapshot == "" {
		return index.NewMap(), nil
	}
	m, at, err := snapshot.Load(c.Snapshot)
	if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(e.Err, "no snapshot %s yet: the index is empty\n", c.Snapshot)
		return index.NewMap(), nil
	}
	if err == nil {
		fmt.Fprintf(e.Err, "%d keys from a snapshot of %s; what was stored after it is lost\n",
			m.Len(), at.UTC().Format(time.RFC3339))
	}
	return m, err
}

// keeper writes the snapshots of a map that is served.
type keeper struct {
	env     *cli.Env
	file    string // "": none
	m       *index.Map
	changes func() uint64
	saved   uint64      // of changes, those that the file has: none after it was loaded
	was     os.FileInfo // the file then
}

// there reports whether the file is the one that was written last, as it was.
func (k *keeper) there() bool {
	is, err := os.Stat(k.file)
	return err == nil && k.was != nil && os.SameFile(is, k.was) && is.Size() == k.was.Size() &&
		is.ModTime().Equal(k.was.ModTime())
}

// save writes the snapshot, unless the file has all of it.
func (k *keeper) save() error {
	if k.file == "" {
		return nil
	}
	now := k.changes()
	if now == k.saved && k.there() {
		return nil
	}
	n, err := snapshot.Save(k.file, k.m, time.Now())
	if err == nil {
		k.saved = now
		k.was, _ = os.Stat(k.file) // without it the next one writes again
		fmt.Fprintf(k.env.Err, "%d keys are in %s\n", n, k.file)
	}
	return err
}

// wait waits for Ctrl-C, or the end of the parent or of the server, and writes snapshots meanwhile.
func (c *serveCmd) wait(e *cli.Env, k *keeper, ended <-chan error) error {
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	if c.Child {
		go func() {
			_, _ = io.Copy(io.Discard, e.In)
			cancel()
		}()
	}
	var again <-chan time.Time
	if c.Every > 0 {
		t := time.NewTicker(c.Every)
		defer t.Stop()
		again = t.C
	}
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		case <-again:
			if err := k.save(); err != nil {
				fmt.Fprintf(e.Err, "no snapshot: %v\n", err) // the next one may succeed
			}
		}
	}
}
