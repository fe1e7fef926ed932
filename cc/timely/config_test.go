package timely

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestFillDefaults(t *testing.T) {
	const us = time.Microsecond
	want := Config{TLow: 25 * us, THigh: 1000 * us, MinRTT: 2 * us, RTTRef: 20 * us, BaseRTT: 60 * us,
		Alpha: 0.46, Beta: 0.03, MaxDecrease: 0.5, AddRate: 3e6, MinRate: 1.25e6, HAIAfter: 5}
	if got := *filled(t, Config{}); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	want.Variant, want.TLow, want.RTTRef, want.Beta, want.AddRate = Paper, 50*us, 40*us, 0.26, 5e6
	if got := *filled(t, Config{Variant: Paper}); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	want = Config{Variant: Paper, TLow: 1, THigh: 7, MinRTT: 3, RTTRef: 6, BaseRTT: 5,
		Alpha: 1, Beta: 1, MaxDecrease: 1, AddRate: 8, MinRate: 9, HAIAfter: 10}
	if got := *filled(t, want); got != want {
		t.Errorf("what is set has changed: %+v", got)
	}
	if got := filled(t, Config{TLow: 80 * us}).RTTRef; got != 64*us {
		t.Errorf("RTTRef %v, want 4/5 of TLow", got)
	}
	if got := filled(t, Config{HAIAfter: 65535}).HAIAfter; got != 65535 {
		t.Errorf("HAIAfter %d, want what was set", got)
	}
	for _, c := range []Config{ERPC(), ECNOrDelay()} { // published ones are complete and good
		if got := filled(t, c); got.TLow != 50*us || got.Beta != c.Beta || got.AddRate != c.AddRate {
			t.Errorf("%+v became %+v", c, got)
		}
	}
}

// TestPublished: what the papers and eRPC's implementation have, before defaults come in.
func TestPublished(t *testing.T) {
	erpc := Config{Variant: Paper, TLow: 50_000, THigh: 1_000_000, MinRTT: 2000,
		Alpha: 0.46, Beta: 0.26, MaxDecrease: 0.5, AddRate: 5e6, MinRate: 15e6, HAIAfter: 5}
	if got := ERPC(); got != erpc {
		t.Errorf("ERPC: %+v, want %+v", got, erpc)
	}
	ecn := Config{TLow: 50_000, THigh: 500_000, MinRTT: 20_000, RTTRef: 50_000,
		Alpha: 0.875, Beta: 0.008, AddRate: 10e6 / 8}
	if got := ECNOrDelay(); got != ecn {
		t.Errorf("ECNOrDelay: %+v, want %+v", got, ecn)
	}
}

func TestFillErrors(t *testing.T) {
	tests := []struct {
		cfg    Config
		field  string
		reason string
	}{
		{Config{Variant: 2}, "Variant", "is 2, must be Patched or Paper"},
		{Config{TLow: -1}, "TLow", "is -1ns, must not be negative"},
		{Config{TLow: time.Millisecond}, "TLow", "is 1ms, must be below THigh, 1ms"},
		{Config{THigh: time.Microsecond}, "TLow", "is 25µs, must be below THigh, 1µs"},
		{Config{THigh: -1}, "THigh", "is -1ns, must not be negative"},
		{Config{MinRTT: -1}, "MinRTT", "is -1ns, must not be negative"},
		{Config{RTTRef: -1}, "RTTRef", "is -1ns, must not be negative"},
		{Config{RTTRef: time.Second}, "RTTRef", "is 1s, must be below THigh, 1ms"},
		{Config{RTTRef: time.Millisecond}, "RTTRef", "is 1ms, must be below THigh, 1ms"},
		{Config{BaseRTT: -1}, "BaseRTT", "is -1ns, must not be negative"},
		{Config{Alpha: 1.01}, "Alpha", "is 1.01, must be above 0 and at most 1"},
		{Config{Alpha: -0.1}, "Alpha", "is -0.1, must be above 0 and at most 1"},
		{Config{Beta: math.NaN()}, "Beta", "is NaN, must be above 0 and at most 1"},
		{Config{Beta: 2}, "Beta", "is 2, must be above 0 and at most 1"},
		{Config{MaxDecrease: math.Inf(1)}, "MaxDecrease",
			"is +Inf, must be above 0 and at most 1"},
		{Config{MaxDecrease: 1.5}, "MaxDecrease", "is 1.5, must be above 0 and at most 1"},
		{Config{AddRate: math.Inf(-1)}, "AddRate", "is -Inf, must be above 0 and finite"},
		{Config{AddRate: -5}, "AddRate", "is -5, must be above 0 and finite"},
		{Config{MinRate: math.Inf(1)}, "MinRate", "is +Inf, must be above 0 and finite"},
		{Config{MinRate: -5}, "MinRate", "is -5, must be above 0 and finite"},
		{Config{MinRate: math.NaN()}, "MinRate", "is NaN, must be above 0 and finite"},
		{Config{HAIAfter: -1}, "HAIAfter", "is -1, must be 0 to 65535"},
		{Config{HAIAfter: 1 << 16}, "HAIAfter", "is 65536, must be 0 to 65535"},
		{Config{TLow: -1, Beta: 7}, "TLow", "is -1ns, must not be negative"}, // the first one
	}
	for _, tt := range tests {
		_, err := tt.cfg.Fill()
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Field != tt.field || bad.Reason != tt.reason {
			t.Errorf("%+v: %v, want %s %s", tt.cfg, err, tt.field, tt.reason)
		}
	}
	err := &ConfigError{"TLow", "is -1ns, must not be negative"}
	if err.Error() != "timely: config: TLow is -1ns, must not be negative" {
		t.Error(err)
	}
}

func TestVariantString(t *testing.T) {
	if Patched.String() != "patched" || Paper.String() != "paper" || Variant(9).String() != "unknown" {
		t.Error(Patched, Paper, Variant(9))
	}
}
