package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// fetch gets memcached's source, unless it is there. Nothing of the system changes: apt-get has its
// lists and caches in the suite's folder.
func (s *suite) fetch() error {
	if _, err := os.Stat(filepath.Join(s.source, "t")); err == nil {
		return nil
	}
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`(?m)^ID=debian$`).Find(text)
	name := regexp.MustCompile(`(?m)^VERSION_CODENAME=(\w+)$`).FindSubmatch(text)
	if m == nil || name == nil {
		return errors.New("memcached's source is fetched by apt-get source: this needs Debian")
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	lists := filepath.Join(s.dir, "apt/lists/partial")
	if err := os.MkdirAll(lists, 0o755); err != nil {
		return err
	}
	sources := filepath.Join(s.dir, "apt/sources.list")
	const lines = "deb-src [signed-by=%[1]s] http://deb.debian.org/debian %[2]s main\n" +
		"deb-src [signed-by=%[1]s] http://deb.debian.org/debian-security %[2]s-security main\n"
	if err := os.WriteFile(sources, fmt.Appendf(nil, lines, keyring, name[1]), 0o644); err != nil {
		return err
	}
	own := []string{"-q", "-o", "Dir::Etc::sourcelist=" + sources, "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + filepath.Dir(lists), "-o", "Dir::Cache=" + s.dir + "/apt",
		"-o", "APT::Sandbox::User="}
	err = s.command("apt-get", append(own, "update")...)
	if err == nil {
		err = s.command("apt-get", append(own, "source", "--download-only", "memcached")...)
	}
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(s.dir, "*.dsc"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d .dsc files: %w", len(found), err)
	}
	if err := s.command("dpkg-source", "-x", found[0], s.source); err != nil {
		return err
	}
	if err := s.adapt(); err != nil {
		return errors.Join(err, os.RemoveAll(s.source))
	}
	return nil
}

// adapt has the tests wait where they would move a server's clock, and nobody else read passwords.
// Their timedrun would end a server that has run for too long; run does so here.
func (s *suite) adapt() error {
	lib := filepath.Join(s.source, "t/lib/MemcachedTest.pm")
	text, err := os.ReadFile(lib)
	if err != nil {
		return err
	}
	const wait = "sub mem_move_time { select undef, undef, undef, $$_[1] + 0.3 }"
	moved := moveTime.ReplaceAll(text, []byte(wait))
	if string(moved) == string(text) {
		return errors.New("MemcachedTest.pm has no mem_move_time")
	}
	timedrun := filepath.Join(s.source, "timedrun")
	return errors.Join(os.WriteFile(lib, moved, 0o644),
		os.Chmod(filepath.Join(s.source, "t/authfile"), 0o600),
		os.WriteFile(timedrun, []byte("#!/bin/sh\nshift\nexec \"$@\"\n"), 0o755))
}

var moveTime = regexp.MustCompile(`(?s)sub mem_move_time \{.*?\n\}`)

// command runs a program in the suite's folder.
func (s *suite) command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
