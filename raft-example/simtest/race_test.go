//go:build race

package simtest

func init() { raced = true }
