//go:build race && !erpc_strict_race

package erpc_test

import (
	"context"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestNoFalseRace: what a caller did before a call its handler sees, and what the handler did the
// caller sees, in one process. The race detector is told so, as by package net.
func TestNoFalseRace(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{})
	asked, answered := 0, 0
	g.handle(t, 50, func(context.Context, []byte) ([]byte, error) {
		answered += asked
		return nil, nil
	})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{})
	for range 100 {
		asked++
		if _, err := c.Call(bg, 50, nil); err != nil {
			t.Fatal(err)
		}
	}
	if answered != 5050 {
		t.Errorf("%d, want 5050", answered)
	}
}
