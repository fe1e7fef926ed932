package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
)

// TestPacingOfHosts: sessions pace their packets to the link's rate. What their hosts add to round
// trips is neither congestion nor a reason to send late.
func TestPacingOfHosts(t *testing.T) {
	cfg, err := Config{}.fill()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{0, time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
		p := cfg.pacing(8e9, d)
		if p == nil || p.LinkRate != 1e9 || p.Slack != engine.WheelConfig.Granularity+d/4 {
			t.Fatalf("hosts add %v: pacing %+v", d, p)
		}
		if got, want := p.Algorithm.Bypass, cfg.Congestion.timely(d).TLow; got != want {
			t.Errorf("hosts add %v: answers of up to %v change nothing, want %v", d, got, want)
		}
	}
	cfg.Congestion.Algorithm = CCNone
	if p := cfg.pacing(8e9, 0); p != nil {
		t.Error("pacing without congestion control")
	}
}
