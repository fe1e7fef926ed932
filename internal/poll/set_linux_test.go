package poll

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hang bounds what must happen; only a test that fails waits so long.
const hang = time.Minute

// bound ends the test, by a panic that shows all goroutines, if it hangs.
func bound(t testing.TB) {
	guard := time.AfterFunc(hang, func() { panic(t.Name() + " hangs") })
	t.Cleanup(func() { guard.Stop() })
}

// newEvent returns an eventfd that is closed with the test.
func newEvent(t testing.TB) int {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// add makes an eventfd readable.
func add(t testing.TB, fd int) {
	t.Helper()
	if _, err := unix.Write(fd, []byte{1, 1, 1, 1, 1, 1, 1, 1}); err != nil {
		t.Error(err)
	}
}

// drain takes back add, and reports whether the eventfd was readable.
func drain(fd int) bool {
	var buf [8]byte
	n, _ := unix.Read(fd, buf[:])
	return n == len(buf)
}

// sleep sleeps without an error.
func sleep(t testing.TB, s *Set, timeout time.Duration) uint32 {
	t.Helper()
	ready, err := s.Sleep(timeout)
	if err != nil {
		t.Fatalf("Sleep(%v): %v", timeout, err)
	}
	return ready
}

// TestReadyBits makes each choice of three descriptors readable.
func TestReadyBits(t *testing.T) {
	bound(t)
	fds := []int{newEvent(t), newEvent(t), newEvent(t)}
	s := NewSet("test", fds[:1]...)
	s.Watch(fds[1:]...)
	if got := s.FDs(); !reflect.DeepEqual(got, fds) {
		t.Fatalf("FDs() = %v, want %v", got, fds)
	}
	for want := range uint32(8) {
		for i, fd := range fds {
			if want&(1<<i) != 0 {
				add(t, fd)
			}
		}
		timeouts := []time.Duration{0, 1}
		if want != 0 {
			timeouts = append(timeouts, time.Hour, -1, -time.Hour)
		}
		for _, timeout := range timeouts {
			if got := sleep(t, &s, timeout); got != want {
				t.Errorf("Sleep(%v) = %03b, want %03b", timeout, got, want)
			}
		}
		for _, fd := range fds {
			drain(fd)
		}
	}
}

// TestReadyOnError: what is no byte to read, but has to be looked at, has its bit too.
func TestReadyOnError(t *testing.T) {
	bound(t)
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	s := NewSet("test", newEvent(t), ends[0])
	if got := sleep(t, &s, 0); got != 0 {
		t.Errorf("an open pipe: %02b, want 0", got)
	}
	unix.Close(ends[1])
	if got := sleep(t, &s, -1); got != 2 {
		t.Errorf("a pipe without a writer: %02b, want 10", got)
	}
}

// TestTooMany: there are 32 bits, and no descriptor goes without.
func TestTooMany(t *testing.T) {
	fd := newEvent(t)
	s := NewSet("many")
	for range maxFDs {
		s.Watch(fd)
	}
	add(t, fd)
	if got := sleep(t, &s, 0); got != 1<<32-1 {
		t.Errorf("Sleep = %032b", got)
	}
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "many") {
			t.Errorf("one more descriptor: panic %q", p)
		}
	}()
	s.Watch(fd)
}

// TestSleepBlocks: Sleep without a timeout goes on until something is readable. A signal may end
// it early, but not each time.
func TestSleepBlocks(t *testing.T) {
	bound(t)
	const rounds = 1000
	fd := newEvent(t)
	s := NewSet("test", fd)
	asked := make(chan struct{}, 1)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer close(asked)
	writer.Go(func() {
		for range asked {
			add(t, fd)
		}
	})
	early := 0
	for range rounds {
		asked <- struct{}{}
		for sleep(t, &s, -1) == 0 {
			early++
		}
		drain(fd)
	}
	if early > rounds/10 {
		t.Errorf("%d calls of Sleep returned for no reason in %d rounds", early, rounds)
	}
}

// TestInterrupted: a signal ends the sleep without an error.
func TestInterrupted(t *testing.T) {
	fd := newEvent(t)
	s := NewSet("test", fd)
	type result struct {
		ready uint32
		err   error
	}
	thread, done := make(chan int), make(chan result)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		ready, err := s.Sleep(-1)
		done <- result{ready, err}
	}()
	tid := <-thread
	var late atomic.Bool
	guard := time.AfterFunc(hang, func() { late.Store(true); add(t, fd) })
	defer guard.Stop()
	for {
		// The scheduler's own signal, which may come at any time. The thread may not be in
		// ppoll yet, so one signal is not enough.
		if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGURG); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
		select {
		case r := <-done:
			if r.ready != 0 || r.err != nil || late.Load() {
				t.Errorf("interrupted Sleep = %b, %v, late %v; want 0, nil", r.ready, r.err, late.Load())
			}
			return
		default:
		}
	}
}

// TestSleepError: the error names the transport and the system call.
func TestSleepError(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	s := NewSet("name", newEvent(t))
	none := unix.Rlimit{Cur: 0, Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	ready, err := s.Sleep(0) // more descriptors than the process may have
	w := steps{idle: true}
	waitErr := s.Wait(&w, -1)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if ready != 0 || !errors.Is(err, unix.EINVAL) || err.Error() != "name: ppoll: invalid argument" {
		t.Errorf("Sleep = %b, %v", ready, err)
	}
	if !errors.Is(waitErr, unix.EINVAL) || w.calls != 1 || w.ready != 0 {
		t.Errorf("Wait: %v, FinishWait called %d times, last with %b", waitErr, w.calls, w.ready)
	}
}

// steps is a Waiter that says what it is told to.
type steps struct {
	idle            bool
	prepare, finish error
	calls           int // of FinishWait
	ready           uint32
}

func (s *steps) PrepareWait() (bool, error) { return s.idle, s.prepare }
func (s *steps) FinishWait(r uint32) error  { s.calls++; s.ready = r; return s.finish }

// TestWait: Wait sleeps only if it may, and ends each wait that has begun.
func TestWait(t *testing.T) {
	bound(t)
	fd := newEvent(t)
	add(t, fd)
	s := NewSet("test", newEvent(t), fd)
	bad, worse := errors.New("bad"), errors.New("worse")
	for _, c := range []struct {
		name    string
		w       steps
		timeout time.Duration
		err     error
		calls   int
		ready   uint32
	}{
		{"idle", steps{idle: true}, -1, nil, 1, 2},
		{"idle, with a timeout", steps{idle: true}, time.Hour, nil, 1, 2},
		{"no timeout", steps{idle: true}, 0, nil, 1, 0},
		{"busy", steps{}, -1, nil, 1, 0},
		{"closed before", steps{prepare: bad, finish: worse}, -1, bad, 0, 0},
		{"closed meanwhile", steps{idle: true, finish: bad}, -1, bad, 1, 2},
	} {
		err := s.Wait(&c.w, c.timeout)
		if !errors.Is(err, c.err) || c.w.calls != c.calls || c.w.ready != c.ready {
			t.Errorf("%s: error %v, FinishWait called %d times, last with %02b; want %v, %d, %02b",
				c.name, err, c.w.calls, c.w.ready, c.err, c.calls, c.ready)
		}
	}
}
