package main

import (
	"path"
	"testing"
)

// TestOverlap: patterns overlap if a name matches both, of all names of some length that there are.
func TestOverlap(t *testing.T) {
	alphabet := []string{"", "a", "b", "*", "?", "[ab]", "[^a]", "[b-c]", "/", `\*`, `[\]a]`}
	var names []string
	for _, x := range "abc*/]" {
		names = append(names, string(x))
	}
	for k := 0; len(names[k]) < 4; k++ {
		for _, x := range "abc*/]" {
			names = append(names, names[k]+string(x))
		}
	}
	names = append(names, "")
	var patterns []string
	for _, a := range alphabet {
		for _, b := range alphabet {
			patterns = append(patterns, a+b)
		}
	}
	match := map[string][]bool{}
	for _, p := range patterns {
		for _, name := range names {
			is, err := path.Match(p, name)
			if err != nil {
				t.Fatal(p, err)
			}
			match[p] = append(match[p], is)
		}
	}
	for _, p := range patterns {
		for _, q := range patterns {
			want := false
			for i := range names {
				want = want || match[p][i] && match[q][i]
			}
			if got := overlap(p, q); got != want {
				t.Errorf("%q and %q: %v", p, q, got)
			}
		}
	}
	for _, c := range []struct {
		p, q string
		want bool
	}{
		{"ad*", "*min", true}, {"ad*", "*mon", true}, {"a*c", "b*", false},
		{"spiffe://store/*/a", "spiffe://store/member/*", true},
		{"spiffe://store/*", "spiffe://store/member/*", false}, {"*a*b*c*", "cba", false},
		{"*a*a*a*a*a*a*a*a*a*a*b", "*a*a*a*a*a*a*a*a*a*a*c", false},
	} {
		if got := overlap(c.p, c.q); got != c.want {
			t.Errorf("%q and %q: %v", c.p, c.q, got)
		}
	}
}
