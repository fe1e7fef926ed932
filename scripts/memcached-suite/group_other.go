//go:build !unix

package main

import "os/exec"

// group returns a function that ends a program.
func group(cmd *exec.Cmd) (end func() error) {
	return func() error { return cmd.Process.Kill() }
}
