package rawudp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestErrorsAllocateNothing: a spinning endpoint asks its socket for errors now and then.
func TestErrorsAllocateNothing(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	q := &errorQueue{fd: fd}
	q.poll[0].Fd = int32(fd)
	if n := testing.AllocsPerRun(100, q.read); n != 0 {
		t.Errorf("%v allocations for a queue that is empty", n)
	}
}
