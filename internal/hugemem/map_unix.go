//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package hugemem

import (
	"fmt"
	"syscall"
)

func mapPlain(size int) ([]byte, error) {
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("hugemem: mmap of %d bytes: %w", size, err)
	}
	return mem, nil
}

func unmap(mem []byte) error { return syscall.Munmap(mem) }
