//go:build !unix

package wal

import "io/fs"

// links returns how many names a file has, 0 since that is not known here.
func links(fs.FileInfo) uint64 { return 0 }
