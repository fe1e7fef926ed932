package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/transport"
)

// TestPacingOfLocal: between processes of one machine nothing paces that follows round trips, but
// to measure what it costs. What follows marks or losses, and a program's own algorithm, stays.
func TestPacingOfLocal(t *testing.T) {
	custom := cc.Algorithm{Name: "own", New: func(float64) cc.Controller { return nil }}
	for algorithm, paced := range map[CCAlgorithm]bool{CCTimely: false, CCSwift: false, CCNone: false,
		CCDCQCN: true, CCCubic: true, CCCustom: true} {
		for _, e := range []Experiment{{}, {NoRateBypass: true}, {NoPacingBypass: true}} {
			cfg, err := Config{Congestion: Congestion{Algorithm: algorithm, Custom: custom},
				Experiment: e}.fill()
			if err != nil {
				t.Fatal(err)
			}
			want := paced || e != Experiment{} && algorithm != CCNone
			if got := cfg.pacing(8e9, 1024, &transport.Path{Local: true}) != nil; got != want {
				t.Errorf("%v, %+v: paced %v, want %v", algorithm, e, got, want)
			}
		}
	}
}

// TestPacingOfHosts: sessions pace their packets to the link's rate. What their hosts add to round
// trips is neither congestion nor a reason to send late.
func TestPacingOfHosts(t *testing.T) {
	cfg, err := Config{}.fill()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{0, time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
		p := cfg.pacing(8e9, 1024, &transport.Path{HostDelay: d})
		if p == nil || p.LinkRate != 1e9 || p.Slack != engine.WheelConfig.Granularity+d/4 {
			t.Fatalf("hosts add %v: pacing %+v", d, p)
		}
		if got, want := p.Algorithm.Bypass, cfg.Congestion.timely(d).TLow; got != want {
			t.Errorf("hosts add %v: answers of up to %v change nothing, want %v", d, got, want)
		}
	}
	cfg.Congestion.Algorithm = CCSwift
	for _, d := range []time.Duration{0, 100 * time.Microsecond} {
		s, p := cfg.Congestion.swift(1024, d), cfg.pacing(8e9, 1024, &transport.Path{HostDelay: d})
		if p.Algorithm.Bypass != s.Target || s.Target != 25*time.Microsecond+d ||
			s.BaseRTT != 60*time.Microsecond+d || s.Packet != 1024+66 {
			t.Errorf("hosts add %v: %+v, answers of up to %v change nothing", d, s, p.Algorithm.Bypass)
		}
	}
	cfg.Congestion.Swift.Target, cfg.Congestion.Swift.Packet = 7, 9
	if s := cfg.Congestion.swift(1024, time.Second); s.Target != 7 || s.Packet != 9 {
		t.Errorf("what is set has changed: %+v", s)
	}
	cfg.Congestion.Algorithm = CCNone
	if p := cfg.pacing(8e9, 1024, new(transport.Path)); p != nil {
		t.Error("pacing without congestion control")
	}
}
