package mica

import (
	"errors"
	"testing"
)

// TestOffsetBits: a partition has at most a quarter of as many units as there are offsets, so that
// an entry whose item is gone is known as such for long.
func TestOffsetBits(t *testing.T) {
	const bits = 15
	exact := false
	for memory := 64 << 10; memory < 96<<10; memory += unit {
		cfg := Config{Memory: memory, onHeap: true}
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		units := p.Stats().Capacity / unit
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		cfg.offsetBits = bits
		p, err = New(cfg)
		fits := 4*units <= 1<<bits
		exact = exact || 4*units == 1<<bits
		switch {
		case fits && err != nil || !fits && !errors.Is(err, ErrConfig):
			t.Fatalf("%d bytes, %d units: %v", memory, units, err)
		case fits:
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !exact {
		t.Error("no partition has just as many units as fit")
	}
}
