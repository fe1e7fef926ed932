//go:build !linux

package main

import "errors"

// openSpaces says that there are no namespaces on this system.
func openSpaces(*weather) (chaosNet, error) { return nil, errors.ErrUnsupported }
