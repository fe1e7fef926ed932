package dcqcn

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestFillDefaults(t *testing.T) {
	const us = time.Microsecond
	want := Config{CNPInterval: 50 * us, AlphaInterval: 55 * us, IncreaseInterval: 55 * us,
		IncreaseBytes: 10e6, Stages: 5, Gain: 1.0 / 256, AddRate: 2e6, HyperRate: 50e6, MinRate: 1.25e6}
	if got := *filled(t, Config{}); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	want = Config{CNPInterval: 1, AlphaInterval: 2, IncreaseInterval: 3, IncreaseBytes: 4,
		Stages: 6, Gain: 1, AddRate: 7, HyperRate: 8, MinRate: 9}
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
		{Config{CNPInterval: -1}, "CNPInterval", "is -1ns, must not be negative"},
		{Config{AlphaInterval: -1}, "AlphaInterval", "is -1ns, must not be negative"},
		{Config{AlphaInterval: 50 * time.Microsecond}, "AlphaInterval",
			"is 50µs, must be above CNPInterval, 50µs"},
		{Config{CNPInterval: time.Second}, "AlphaInterval", "is 55µs, must be above CNPInterval, 1s"},
		{Config{IncreaseInterval: -1}, "IncreaseInterval", "is -1ns, must not be negative"},
		{Config{IncreaseBytes: -1}, "IncreaseBytes",
			"is -1, must be 0 to 1099511627776 (1 TiB)"},
		{Config{IncreaseBytes: 1<<40 + 1}, "IncreaseBytes",
			"is 1099511627777, must be 0 to 1099511627776 (1 TiB)"},
		{Config{Stages: -1}, "Stages", "is -1, must be 0 to 65536"},
		{Config{Stages: 1<<16 + 1}, "Stages", "is 65537, must be 0 to 65536"},
		{Config{Gain: 1.01}, "Gain", "is 1.01, must be above 0 and at most 1"},
		{Config{Gain: -0.1}, "Gain", "is -0.1, must be above 0 and at most 1"},
		{Config{Gain: math.NaN()}, "Gain", "is NaN, must be above 0 and at most 1"},
		{Config{AddRate: math.Inf(1)}, "AddRate", "is +Inf, must be above 0 and finite"},
		{Config{AddRate: -5}, "AddRate", "is -5, must be above 0 and finite"},
		{Config{HyperRate: math.NaN()}, "HyperRate", "is NaN, must be above 0 and finite"},
		{Config{MinRate: -5}, "MinRate", "is -5, must be above 0 and finite"},
		// The first one of two.
		{Config{CNPInterval: -1, Gain: 7}, "CNPInterval", "is -1ns, must not be negative"},
	}
	for _, tt := range tests {
		_, err := tt.cfg.Fill()
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Field != tt.field || bad.Reason != tt.reason {
			t.Errorf("%+v: %v, want %s %s", tt.cfg, err, tt.field, tt.reason)
		}
	}
	err := &ConfigError{"Gain", "is 2, must be above 0 and at most 1"}
	if err.Error() != "dcqcn: config: Gain is 2, must be above 0 and at most 1" {
		t.Error(err)
	}
}
