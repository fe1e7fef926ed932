//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "wakeups: counts of thread switches need Linux")
	os.Exit(1)
}
