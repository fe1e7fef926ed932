//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

var errLinuxOnly = errors.New("only on Linux")

func pinThread(int) error { return errLinuxOnly }

// allowedCores returns nil: threads are not pinned here.
func allowedCores() []int { return nil }

// processCPU returns 0: not measured here.
func processCPU() time.Duration { return 0 }

func ownGroup(*exec.Cmd) {}

// plainSocket exists on Linux only; elsewhere the transport is the only yardstick.
type plainSocket struct{}

func listenPlain(string) (*plainSocket, string, error) { return nil, "", errLinuxOnly }
func dialPlain(string) (*plainSocket, error)           { return nil, errLinuxOnly }
func (*plainSocket) close() error                      { return nil }
func (*plainSocket) write([]byte) error                { return errLinuxOnly }
func (*plainSocket) read() (int, error)                { return 0, errLinuxOnly }
func (*plainSocket) echo(int) (int, error)             { return 0, errLinuxOnly }
