//go:build unix

package wal

import (
	"io/fs"
	"syscall"
)

// links returns how many names a file has.
func links(st fs.FileInfo) uint64 {
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(s.Nlink)
}
