//go:build !linux

package main

import (
	"errors"
	"os/exec"
)

func pinThread(int) error { return errors.New("only on Linux") }

// allowedCores returns nil: threads are not pinned here.
func allowedCores() []int { return nil }

func ownGroup(*exec.Cmd) {}
