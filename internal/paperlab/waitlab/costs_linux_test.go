package waitlab

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The benchmarks measure the system calls whose times costs.go names. They assert nothing.

func ok(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

func eventfd(b *testing.B, flags int) int {
	fd, err := unix.Eventfd(0, flags)
	ok(b, err)
	b.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// BenchmarkLook is epoll_wait with a timeout of 0 that finds nothing.
func BenchmarkLook(b *testing.B) {
	ep, err := unix.EpollCreate1(0)
	ok(b, err)
	defer func() { _ = unix.Close(ep) }()
	fd := eventfd(b, 0)
	ok(b, unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}))
	var ev [8]unix.EpollEvent
	for b.Loop() {
		_, _ = unix.EpollWait(ep, ev[:], 0)
	}
}

// BenchmarkEventfdWrite is a write that nobody sleeps for.
func BenchmarkEventfdWrite(b *testing.B) {
	fd := eventfd(b, unix.EFD_NONBLOCK)
	for b.Loop() {
		_, _ = unix.Write(fd, one)
	}
}

// BenchmarkEventfdRead is a read that finds nothing.
func BenchmarkEventfdRead(b *testing.B) {
	fd := eventfd(b, unix.EFD_NONBLOCK)
	var buf [8]byte
	for b.Loop() {
		_, _ = unix.Read(fd, buf[:])
	}
}

// BenchmarkWakingWrite is a write that wakes a thread on another core: the writer's part alone.
func BenchmarkWakingWrite(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("needs two cores")
	}
	fd := eventfd(b, 0)
	go func() {
		pin(1)
		var buf [8]byte
		for {
			if n, err := unix.Read(fd, buf[:]); n != 8 || err != nil || buf[1] != 0 {
				return
			}
		}
	}()
	pin(0)
	var took []time.Duration
	for b.Loop() {
		for begun := time.Now(); time.Since(begun) < 50*time.Microsecond; { // it falls asleep
		}
		begun := time.Now()
		_, _ = unix.Write(fd, one)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/median")
	b.ReportMetric(float64(took[len(took)/10].Nanoseconds()), "ns/tenth")
	_, _ = unix.Write(fd, []byte{0, 1, 0, 0, 0, 0, 0, 0})
}

// BenchmarkSwitch is half of a round of two threads that wake each other on one core.
func BenchmarkSwitch(b *testing.B) {
	there, back := eventfd(b, 0), eventfd(b, 0)
	go func() {
		pin(0)
		var buf [8]byte
		for {
			if _, err := unix.Read(there, buf[:]); err != nil || buf[1] != 0 {
				return
			}
			_, _ = unix.Write(back, one)
		}
	}()
	pin(0)
	var buf [8]byte
	for b.Loop() {
		_, _ = unix.Write(there, one)
		_, _ = unix.Read(back, buf[:])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/switch")
	_, _ = unix.Write(there, []byte{0, 1, 0, 0, 0, 0, 0, 0})
}

// pin keeps the goroutine on one core; its thread ends with it.
func pin(cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set)
}
