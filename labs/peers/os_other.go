//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

// start starts a process; the spot is not used.
func start(c *exec.Cmd, _ spot) error { return c.Start() }

// cpuTime of another process is not measured here.
func cpuTime(int) time.Duration { return 0 }

// threads of this process are not counted here.
func threads() (int, error) { return 0, errors.New(noThreads) }

const noThreads = "threads are counted on Linux only"

// peakMemory of this process is not known here.
func peakMemory() int64 { return 0 }
