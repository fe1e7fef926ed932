package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestRouteGuide: each kind of call brings what it should, and nothing is left behind.
func TestRouteGuide(t *testing.T) {
	defer goleak.VerifyNone(t)
	var out strings.Builder
	if err := both(&out); err != nil {
		t.Fatal(err)
	}
	const want = `at 50.9413,6.9583: Cologne Cathedral
at 0.0000,0.0000: nothing
in the rectangle: Cologne Cathedral
in the rectangle: Aachen Cathedral
in the rectangle: Beethoven's birthplace, Bonn
a route of 4 points by 4 features: 249 km
noted at 50.7363,7.1011: closed on Mondays
noted at 50.7363,7.1011: closed on Mondays
noted at 50.7363,7.1011: open again
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
}

// TestNoServer: a client without a server says so.
func TestNoServer(t *testing.T) {
	defer goleak.VerifyNone(t)
	if err := travel(new(strings.Builder), "no address"); err == nil {
		t.Error("a route without a server")
	}
}

// TestDistance: a degree of latitude is 111 km, and distances are the same both ways.
func TestDistance(t *testing.T) {
	a, b := point(10, 20), point(11, 20)
	if d := distance(a, b); d < 111_000 || d > 111_400 || d != distance(b, a) {
		t.Errorf("a degree of latitude: %v m", d)
	}
	if d := distance(point(0, 0), point(0, 180)); d < 20_014_000 || d > 20_016_000 {
		t.Errorf("half the equator: %v m", d)
	}
}
