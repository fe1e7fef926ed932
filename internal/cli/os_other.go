//go:build !linux

package cli

import (
	"errors"
	"os/exec"
)

// ErrLinuxOnly says that this exists on Linux only.
var ErrLinuxOnly = errors.New("only on Linux")

// PinThread returns ErrLinuxOnly.
func PinThread(int) error { return ErrLinuxOnly }

// AllowedCores returns nil: threads are not pinned here.
func AllowedCores() []int { return nil }

// OwnGroup does nothing here.
func OwnGroup(*exec.Cmd) {}
