package main

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
)

// TestRest: a process has one processor when its replica has had nothing to do for a while, and all
// of them from the first pass on in which it has.
func TestRest(t *testing.T) {
	defer func(was int) { processors = was }(processors)
	processors = 8
	now, procs, changes := monotime.Time(1), 8, 0
	r := rest{now: func() monotime.Time { return now }, procs: func(n int) int {
		procs = n
		changes++
		return n
	}}
	pass := func(idle bool, d time.Duration, want int) {
		t.Helper()
		for end := now.Add(d); now < end; now = now.Add(50 * time.Millisecond) {
			if r.look(idle); procs != want {
				t.Fatalf("idle %v: %d processors, want %d", idle, procs, want)
			}
		}
	}
	for range 3 {
		pass(false, time.Second, 8)
		pass(true, restAfter, 8)
		pass(false, 50*time.Millisecond, 8) // it begins anew
		pass(true, restAfter, 8)
		pass(true, time.Minute, 1)
		pass(false, 50*time.Millisecond, 8)
	}
	if changes != 6 {
		t.Errorf("%d changes", changes)
	}
}
