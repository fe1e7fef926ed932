//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package hugemem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func mapPlain(size int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("hugemem: mmap of %d bytes: %w", size, err)
	}
	return mem, nil
}

func unmap(mem []byte) error { return unix.Munmap(mem) }
