package main

import "path"

// overlap reports whether there is a name of visible ASCII that both patterns of package path
// match.
func overlap(p, q string) bool {
	a, b := parts(p), parts(q)
	seen := map[[2]int]bool{}
	var from func(i, j int) bool
	from = func(i, j int) bool {
		if i == len(a) && j == len(b) {
			return true
		}
		if seen[[2]int{i, j}] {
			return false
		}
		seen[[2]int{i, j}] = true
		starA, starB := i < len(a) && a[i] == "*", j < len(b) && b[j] == "*"
		if starA && from(i+1, j) || starB && from(i, j+1) {
			return true
		}
		if i == len(a) || j == len(b) || !meet(a[i], b[j]) {
			return false
		}
		if !starA {
			i++
		}
		if !starB {
			j++
		}
		return (!starA || !starB) && from(i, j)
	}
	return from(0, 0)
}

// parts cuts a pattern into those that match one character each, and stars.
func parts(pattern string) (list []string) {
	for rest := pattern; rest != ""; {
		n := 1
		switch rest[0] {
		case '\\':
			n = min(2, len(rest))
		case '[': // up to its end, which is no escaped one
			for n < len(rest) && rest[n] != ']' {
				if n++; rest[n-1] == '\\' {
					n++
				}
			}
			n = min(n+1, len(rest))
		}
		list, rest = append(list, rest[:n]), rest[n:]
	}
	return list
}

// meet reports whether two parts match the same character.
func meet(p, q string) bool {
	for c := byte('!'); c <= '~'; c++ {
		isP, _ := path.Match(p, string(c))
		isQ, _ := path.Match(q, string(c))
		if isP && isQ {
			return true
		}
	}
	return false
}
