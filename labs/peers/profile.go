package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// profileDir is the environment's folder for CPU profiles of the processes of stubs, one a process;
// without it there are none.
const profileDir = "PEERS_PROFILES"

// profile begins one, if it is asked for, until stop.
func profile(who string) (stop func() error, err error) {
	dir := os.Getenv(profileDir)
	if dir == "" {
		return func() error { return nil }, nil
	}
	f, err := outfile.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", who, os.Getpid())), 0o666)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}
