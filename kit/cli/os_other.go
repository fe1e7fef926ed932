//go:build !linux

package cli

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// ErrLinuxOnly says that this exists on Linux only.
var ErrLinuxOnly = errors.New("only on Linux")

// PinThread returns ErrLinuxOnly.
func PinThread(int) error { return ErrLinuxOnly }

// AllowedCores returns nil: threads are not pinned here.
func AllowedCores() []int { return nil }

func terminalWidth(*os.File) int { return 0 }

func openFiles() uint64 { return 0 }

// OwnGroup does nothing here.
func OwnGroup(*exec.Cmd) {}

// ProcessCPU returns 0: not measured here.
func ProcessCPU() time.Duration { return 0 }
