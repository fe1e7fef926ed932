//go:build unix

package ownfile

import (
	"io/fs"
	"syscall"
)

const (
	openDir = syscall.O_DIRECTORY | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	openNow = syscall.O_NONBLOCK
	openOwn = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
)

// Owner returns the user who owns a file; ok is false on systems without such users.
func Owner(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// Links returns how many names a file has.
func Links(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink)
}
