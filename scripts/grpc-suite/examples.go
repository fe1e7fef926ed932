package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// examples runs each client of grpc-go's examples beside its server, as their script does.
func (o *options) examples(lists) ([]result, error) {
	list, err := readExamples(o.suite.folder(o.dir))
	if err != nil {
		return nil, err
	}
	var all []result
	for _, e := range list {
		if !o.match.MatchString(e.folder) {
			continue
		}
		r := result{test: test{name: e.folder}}
		if err := o.example(&e); err != nil {
			r.failed, r.first = true, err.Error()
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b result) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// example builds and runs one.
func (o *options) example(e *example) error {
	ctx, cancel := context.WithCancel(context.Background())
	server, err := o.exampleProgram(ctx, e.folder, "server", e.server)
	if err != nil {
		cancel()
		return err
	}
	client, err := o.exampleProgram(ctx, e.folder, "client", e.client)
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		_ = server.Wait() // it was killed, or has ended
	}()
	if !o.within(func() bool { return listens(e.awaits) }) {
		return fmt.Errorf("the server does not listen at %s", e.awaits)
	}
	over := time.AfterFunc(o.limit, cancel)
	defer over.Stop()
	if err := client.Run(); err != nil {
		return fmt.Errorf("the client: %w", err)
	}
	for _, p := range []struct {
		says string
		cmd  *exec.Cmd
	}{{e.serverSays, server}, {e.clientSays, client}} {
		if !o.within(func() bool { return logged(p.cmd, p.says) }) {
			return fmt.Errorf("%s did not say %q", filepath.Base(p.cmd.Path), p.says)
		}
	}
	return nil
}

// exampleProgram builds the program of a folder that ends so, and returns its command. What it says
// goes into a file beside it.
func (o *options) exampleProgram(ctx context.Context, folder, end string, args []string) (*exec.Cmd,
	error) {
	dir := o.suite.folder(o.dir)
	found, err := filepath.Glob(filepath.Join(dir, folder, "*"+end))
	if err != nil || len(found) != 1 {
		return nil, errors.Join(fmt.Errorf("%s has %d folders *%s", folder, len(found), end), err)
	}
	bin := filepath.Join(o.dir, "bin", strings.ReplaceAll(folder, "/", "-")+"-"+end)
	if err := o.goCommand("build", "-o", bin, found[0]).Run(); err != nil {
		return nil, fmt.Errorf("%s does not build: %w", found[0], err)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), o.environment()...)
	log, err := os.Create(bin + ".log")
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, err
}

// within waits for something as long as a test may take.
func (o *options) within(so func() bool) bool {
	end := time.After(o.limit)
	for !so() {
		select {
		case <-end:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return true
}

// logged reports whether a program has said so.
func logged(cmd *exec.Cmd, says string) bool {
	text, err := os.ReadFile(cmd.Path + ".log")
	found, badErr := regexp.Match(says, text)
	return err == nil && badErr == nil && found
}

// listens reports whether a socket of this machine is bound to a port of UDP, or to an abstract
// address of that name: Linux tells it.
func listens(at string) bool {
	files, mark := []string{"unix"}, " @"+at+"\n"
	if port, err := strconv.Atoi(at); err == nil {
		files, mark = []string{"udp", "udp6"}, fmt.Sprintf(":%04X ", port)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, _ := os.ReadFile("/proc/self/net/" + file)
		return strings.Contains(string(text), mark)
	})
}
