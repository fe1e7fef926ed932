//go:build !linux

package main

import "errors"

func setPages(kind string) error {
	if kind == "default" {
		return nil
	}
	return errors.New("-pages: only Linux has a choice")
}

func collapse() (bytes uint64, err error) { return 0, nil }
