//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "erpc-hostile: forging source addresses needs Linux")
	os.Exit(1)
}
