//go:build !linux

package node

import "os"

// forgetCached does nothing: there is no way to ask for it.
func forgetCached(*os.File, int64) {}
