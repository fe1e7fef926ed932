package server

import (
	"testing"
	"testing/synctest"
)

// TestMemory: a limit refuses when the heap is nearly full of what is in use, and not of garbage;
// it goes on when room has been made, and collects only when there is something to find.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		var used, garbage uint64
		collected := 0
		m := NewMemory(160 * mib)
		m.heap = func() uint64 { return used + garbage }
		m.collect = func() { collected++; garbage = 0 }
		// write writes so many MiB, of which some replace others.
		write := func(n, replaced int) {
			for range n * 8 {
				m.changed(mib/8 - perWrite)
				synctest.Wait()
			}
			used += uint64(n-replaced) * mib
			garbage += uint64(replaced) * mib
			m.changed(mib)
			synctest.Wait()
		}
		for i, step := range []struct {
			writes, replaced int
			full             bool
			collections      int
		}{
			{100, 0, false, 0}, {39, 39, false, 0}, {2, 2, false, 1}, {39, 0, false, 1},
			{1, 0, false, 1}, // 140 in use: as many as may be
			{1, 0, true, 2}, {0, 0, true, 2},
		} {
			write(step.writes, step.replaced)
			if full := m.full(); full != step.full || collected != step.collections {
				t.Errorf("step %d: %d MiB in use, %d garbage: full %v, %d collections, want %v, %d", i,
					used/mib, garbage/mib, full, collected, step.full, step.collections)
			}
			synctest.Wait()
		}
		used, garbage = used-10*mib, garbage+10*mib // deletions, which look
		for range 40 {
			m.changed(mib/4 - perWrite)
			synctest.Wait()
		}
		if m.full() {
			t.Errorf("%d MiB in use, %d garbage, and it is full", used/mib, garbage/mib)
		}
		if (*Memory)(nil).full() {
			t.Error("no limit is full")
		}
	})
}
