package poll

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// TestAlso: a descriptor that was added later makes WakeFD readable, until it is closed, and does
// not end a nap. Wake and Stop go on to work, also of other goroutines, and nothing is left open.
func TestAlso(t *testing.T) {
	bound(t)
	var closed atomic.Bool
	var s Sleeper
	if err := s.Init("test", &closed); err != nil {
		t.Fatal(err)
	}
	s.Watch(s.WakeFD())
	fds := s.FDs()
	also := []int{newEvent(t), newEvent(t)}
	for _, fd := range also {
		if err := s.Also(fd); err != nil {
			t.Fatal(err)
		}
	}
	if again := s.FDs(); !slices.Equal(again, fds) {
		t.Errorf("the set has %v, and had %v", again, fds)
	}
	if got := sleep(t, &s.Set, 0); got != 0 {
		t.Fatalf("nothing is readable: %b", got)
	}
	for _, fd := range also {
		add(t, fd)
		if got := sleep(t, &s.Set, -1); got != 1 {
			t.Errorf("Sleep = %b", got)
		}
		if err := s.Nap(time.Millisecond); err != nil {
			t.Error(err)
		}
		if !drain(fd) {
			t.Error("somebody has read it")
		}
	}
	for range 100 { // Wake ends a sleep that has begun, or does not let it begin
		began := make(chan struct{})
		go func() {
			<-began
			s.Wake()
		}()
		idle, err := s.Prepare()
		if err != nil {
			t.Fatal(err)
		}
		close(began)
		var ready uint32
		for idle && ready == 0 {
			ready = sleep(t, &s.Set, -1)
		}
		if err := s.Finish(ready != 0); err != nil {
			t.Fatal(err)
		}
		s.Unlock()
		for s.state.Load() == waking { // it came after Finish
			if _, err := s.Prepare(); err != nil {
				t.Fatal(err)
			}
			_ = s.Finish(false)
			s.Unlock()
		}
	}
	closed.Store(true)
	s.Stop()
	if got := sleep(t, &s.Set, -1); got != 1 {
		t.Errorf("after Stop: %b", got)
	}
	left := []int{fds[0], s.event}
	s.Free()
	for _, fd := range left {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("descriptor %d is open: %v", fd, err)
		}
	}
	if err := s.Also(also[0]); err != transport.ErrClosed {
		t.Errorf("Also after Free: %v", err)
	}
}
