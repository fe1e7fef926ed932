package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/gopt/translate"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
)

// command is the command line.
type command struct {
	Dirs  []string `arg:"" help:"Folders of packages."`
	Check bool     `help:"Write nothing; fail if a file is not what it would be."`
}

// Errors of a run. errStale means that files are not what they would be.
var (
	errStale   = errors.New("run go generate")
	errRefused = errors.New("nothing is written")
)

func main() { cli.Main(run) }

// run runs one command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	app := cli.App{Name: "gopt",
		Description: "Writes batched functions from functions of one lookup."}
	var c command
	return app.Run(e, &c, args, func(e *cli.Env, _ *kong.Context) error { return c.run(e) })
}

func (c *command) run(e *cli.Env) error {
	var errs []error
	for _, dir := range c.Dirs {
		errs = append(errs, c.folder(e, dir))
	}
	return errors.Join(errs...)
}

// folder translates the package of a folder and brings its files up to date.
func (c *command) folder(e *cli.Env, dir string) error {
	p, err := load(dir)
	if err != nil {
		return err
	}
	out, err := translate.Package(p.path, p.files, p)
	if err != nil {
		fmt.Fprintln(e.Err, err) // a line for each refusal
		return fmt.Errorf("%s: %w", dir, errRefused)
	}
	for _, f := range p.files {
		gone := func(o translate.File) bool { return o.Name == f.Name }
		if !translate.Generated(f.Text) || slices.ContainsFunc(out, gone) {
			continue
		}
		if c.Check {
			return fmt.Errorf("%s: nothing asks for it: %w", f.Name, errStale)
		}
		if err := os.Remove(f.Name); err != nil {
			return err
		}
	}
	for _, f := range out {
		if err := c.update(f); err != nil {
			return err
		}
	}
	return nil
}

// update writes a file that has changed.
func (c *command) update(f translate.File) error {
	old, err := os.ReadFile(f.Name)
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case err == nil && bytes.Equal(old, f.Text):
		return nil
	case c.Check:
		return fmt.Errorf("%s: not what it would be: %w", f.Name, errStale)
	case err == nil && !translate.Generated(old):
		return fmt.Errorf("%s: it is there, and was not generated", f.Name)
	}
	to, err := outfile.Create(f.Name, 0o644)
	if err != nil {
		return err
	}
	_, err = to.Write(f.Text)
	return errors.Join(err, to.Close())
}
