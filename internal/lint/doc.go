// Package lint holds the house rules as tests: who may import whom, how long files,
// functions and lines get, where the clock, unsafe and cgo may be used. It has no code
// of its own.
//
// The tests read the source tree with go/parser alone, without building anything
// and without the network. Each rule is a function from a tree to complaints, and
// is itself tested on small trees that break it.
//
// A new package fails the tests until it has a row in the table in table_test.go:
// that is the moment to think about what it may import.
//
// # Map
//
//	owns       the house rules, as tests
//	called by  go test
//	never      a new package is not in the table of imports
package lint
