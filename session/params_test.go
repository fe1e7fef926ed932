package session

import "testing"

// TestStride: both sides compute from the credits how many packets a CR or RFR stands for, so it is
// part of the protocol.
func TestStride(t *testing.T) {
	for credits, want := range map[int]int{1: 1, 4: 1, 8: 2, 16: 4, 32: 8, 128: 8, 1000: 8} {
		if got := (&Params{Credits: credits}).stride(); got != want {
			t.Errorf("%d credits: %d packets, want %d", credits, got, want)
		}
	}
}
