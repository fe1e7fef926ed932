package gid

import (
	"runtime"
	"sync"
	"testing"
)

// deep calls itself so that the stack must grow and move.
func deep(n int) (id uintptr, sum byte) {
	var room [1024]byte
	room[n%len(room)] = byte(n)
	if n == 0 {
		return Current(), room[0]
	}
	id, sum = deep(n - 1)
	return id, sum + room[n%len(room)]
}

// TestStable checks that the identity survives stack moves, rescheduling, locking
// to a thread and garbage collection.
func TestStable(t *testing.T) {
	done := make(chan struct{})
	go func() { // a new goroutine starts with a small stack
		defer close(done)
		id := Current()
		if id == 0 {
			t.Error("identity 0")
		}
		check := func(after string) {
			if got := Current(); got != id {
				t.Errorf("after %s: %#x, before %#x", after, got, id)
			}
		}
		if got, _ := deep(1000); got != id {
			t.Errorf("deep in the stack: %#x, before %#x", got, id)
		}
		check("stack growth")
		for range 1000 {
			runtime.Gosched()
			check("Gosched")
		}
		runtime.LockOSThread()
		check("LockOSThread")
		runtime.UnlockOSThread()
		runtime.GC()
		check("GC")
	}()
	<-done
}

// TestDistinct holds many goroutines alive and compares their identities.
func TestDistinct(t *testing.T) {
	if !Exact {
		if Current() != 1 {
			t.Fatal("inexact identity is not 1")
		}
		t.Skip("no goroutine identity on this architecture")
	}
	const n = 100
	ids := make(chan uintptr, n)
	release := make(chan struct{})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			ids <- Current()
			<-release
			ids <- Current() // still the same while all the others live
		})
	}
	seen := map[uintptr]int{Current(): 2}
	for range n {
		seen[<-ids]++
	}
	close(release)
	wg.Wait()
	for range n {
		seen[<-ids]++
	}
	if len(seen) != n+1 {
		t.Fatalf("%d goroutines, %d identities", n+1, len(seen))
	}
	for id, times := range seen {
		if times != 2 {
			t.Errorf("identity %#x seen %d times, want 2", id, times)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	if n := testing.AllocsPerRun(1000, func() { Current() }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

var sink uintptr

func BenchmarkCurrent(b *testing.B) {
	for b.Loop() {
		sink += Current()
	}
}
