//go:build unix && !linux

package echo

import "golang.org/x/sys/unix"

// recvfrom is read(2): without an address they are the same.
func recvfrom(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

func sendto(fd int, b []byte) error { return unix.Send(fd, b, unix.MSG_DONTWAIT) }
