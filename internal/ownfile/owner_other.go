//go:build !unix

package ownfile

import "io/fs"

const openDir, openNow, openOwn = 0, 0, 0

// Owner returns the user who owns a file; here none.
func Owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

// Links returns how many names a file has.
func Links(fs.FileInfo) uint64 { return 1 }
