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
		{Config{CNPInterval: -1}, "CNPInterval", "is negative"},
		{Config{AlphaInterval: -1}, "AlphaInterval", "is negative"},
		{Config{AlphaInterval: 50 * time.Microsecond}, "AlphaInterval", "is not above CNPInterval"},
		{Config{CNPInterval: time.Second}, "AlphaInterval", "is not above CNPInterval"},
		{Config{IncreaseInterval: -1}, "IncreaseInterval", "is negative"},
		{Config{IncreaseBytes: -1}, "IncreaseBytes", "is negative"},
		{Config{IncreaseBytes: 1<<40 + 1}, "IncreaseBytes", "is above 1 TiB"},
		{Config{Stages: -1}, "Stages", "is negative"},
		{Config{Stages: 1<<16 + 1}, "Stages", "is above 65536"},
		{Config{Gain: 1.01}, "Gain", "is above 1"},
		{Config{Gain: -0.1}, "Gain", "is not positive"},
		{Config{Gain: math.NaN()}, "Gain", "is not a number"},
		{Config{AddRate: math.Inf(1)}, "AddRate", "is infinite"},
		{Config{AddRate: -5}, "AddRate", "is not positive"},
		{Config{HyperRate: math.NaN()}, "HyperRate", "is not a number"},
		{Config{MinRate: -5}, "MinRate", "is not positive"},
		{Config{CNPInterval: -1, Gain: 7}, "CNPInterval", "is negative"}, // the first one
	}
	for _, tt := range tests {
		_, err := tt.cfg.Fill()
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Field != tt.field || bad.Reason != tt.reason {
			t.Errorf("%+v: %v, want %s %s", tt.cfg, err, tt.field, tt.reason)
		}
	}
	err := &ConfigError{"Gain", "is above 1"}
	if err.Error() != "dcqcn: config: Gain is above 1" {
		t.Error(err)
	}
}
