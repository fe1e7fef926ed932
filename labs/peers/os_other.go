//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

// start starts a process; core is not used.
func start(c *exec.Cmd, _ int) error { return c.Start() }

// cpuTime of another process is not measured here.
func cpuTime(int) time.Duration { return 0 }

// threads of this process are not counted here.
func threads() (int, error) { return 0, errors.New(noThreads) }

const noThreads = "threads are counted on Linux only"
