// Command guards takes the guards of security away, one after the other, and sees that a test
// notices each. A guard without a test that fails without it may be lost by any change.
//
//	go run ./scripts/guards [-run NAME] [-v]
//
// The list is guards.txt beside this file: for each guard its name, the file with its place in it,
// what stands there and what a mutant has in its place, and the tests that must fail then. The
// table of docs/security.md names the guards. Nothing in the tree changes: the mutants are given to
// go test as an overlay. Exit status 1 means that a mutant lives.
package main
