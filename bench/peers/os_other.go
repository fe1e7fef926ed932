//go:build !linux

package main

import (
	"os/exec"
	"time"
)

// twoCores: processes cannot be placed on cores here.
func twoCores() (client, server int, ok bool) { return 0, 0, false }

// start starts a process; core is not used.
func start(c *exec.Cmd, _ int) error { return c.Start() }

// cpuTime of another process is not measured here.
func cpuTime(int) time.Duration { return 0 }
