package swift

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestFillDefaults(t *testing.T) {
	want := Config{Target: 25 * us, BaseRTT: 60 * us, FlowRange: 100 * us, FlowMin: 0.1, FlowMax: 100,
		AddPackets: 0.1, Beta: 0.4, MaxDecrease: 0.5, Packet: 1000, MinRate: 100e3, ResetAfter: 5}
	if got := *filled(t, Config{}); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	want = Config{Target: 1, BaseRTT: 2, FlowRange: 3, FlowMin: 4, FlowMax: 8, AddPackets: 6, Beta: 1,
		MaxDecrease: 1, Packet: 1 << 20, MinRate: 9, ResetAfter: 65535}
	if got := *filled(t, want); got != want {
		t.Errorf("what is set has changed: %+v", got)
	}
}

func TestFillErrors(t *testing.T) {
	tests := []struct {
		cfg    Config
		field  string
		reason string
	}{
		{Config{Target: -1}, "Target", "is -1ns, must not be negative"},
		{Config{BaseRTT: -time.Second}, "BaseRTT", "is -1s, must not be negative"},
		{Config{FlowRange: -1}, "FlowRange", "is -1ns, must not be negative"},
		{Config{FlowMin: -1}, "FlowMin", "is -1, must be above 0 and finite"},
		{Config{FlowMin: 51}, "FlowMin", "is 51, must be at most half of FlowMax, 100"},
		{Config{FlowMax: 0.1}, "FlowMin", "is 0.1, must be at most half of FlowMax, 0.1"},
		{Config{FlowMax: math.Inf(1)}, "FlowMax", "is +Inf, must be above 0 and finite"},
		{Config{AddPackets: math.NaN()}, "AddPackets", "is NaN, must be above 0 and finite"},
		{Config{Beta: 1.01}, "Beta", "is 1.01, must be above 0 and at most 1"},
		{Config{MaxDecrease: -0.1}, "MaxDecrease", "is -0.1, must be above 0 and at most 1"},
		{Config{MinRate: -5}, "MinRate", "is -5, must be above 0 and finite"},
		{Config{Packet: -1}, "Packet", "is -1, must be 0 to 1048576"},
		{Config{Packet: 1<<20 + 1}, "Packet", "is 1048577, must be 0 to 1048576"},
		{Config{ResetAfter: -1}, "ResetAfter", "is -1, must be 0 to 65535"},
		{Config{ResetAfter: 65536}, "ResetAfter", "is 65536, must be 0 to 65535"},
		// The first one of two.
		{Config{Target: -1, Beta: 7}, "Target", "is -1ns, must not be negative"},
	}
	for _, tt := range tests {
		_, err := tt.cfg.Fill()
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Field != tt.field || bad.Reason != tt.reason {
			t.Errorf("%+v: %v, want %s %s", tt.cfg, err, tt.field, tt.reason)
		}
	}
	err := &ConfigError{"Beta", "is 2, must be above 0 and at most 1"}
	if err.Error() != "swift: config: Beta is 2, must be above 0 and at most 1" {
		t.Error(err)
	}
}
