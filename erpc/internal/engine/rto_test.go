package engine

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/session"
)

// TestMinRTO: hosts that hold packets up raise the least timeout, up to the largest.
func TestMinRTO(t *testing.T) {
	timing := &session.Timing{RTOMin: 5 * time.Millisecond, RTOMax: 100 * time.Millisecond}
	for _, c := range []struct{ delay, want time.Duration }{
		{0, 5 * time.Millisecond}, {200 * time.Microsecond, 5 * time.Millisecond},
		{time.Millisecond, 20 * time.Millisecond}, {time.Second, 100 * time.Millisecond},
	} {
		if got := minRTO(timing, c.delay); got != c.want {
			t.Errorf("hosts add %v: %v, want %v", c.delay, got, c.want)
		}
	}
}
