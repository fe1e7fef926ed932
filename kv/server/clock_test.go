package server

import (
	"testing"
	"time"
)

// TestSeconds: the clock of the items is not behind the system's by a part of a second, which times
// since 1970 of clients are compared with.
func TestSeconds(t *testing.T) {
	start := time.Unix(100, 900_000_000)
	for since, want := range map[time.Duration]uint32{0: 100, 99 * time.Millisecond: 100,
		100 * time.Millisecond: 101, time.Second: 101, 1100 * time.Millisecond: 102} {
		if got := seconds(start, since); got != want {
			t.Errorf("%v later: %d, want %d", since, got, want)
		}
	}
}
