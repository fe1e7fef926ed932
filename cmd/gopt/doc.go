// Command gopt writes batched functions from functions of one lookup, whose waits for memory then
// overlap. In a package with such functions:
//
//	//go:generate go run github.com/userspace-rpc/erpc/cmd/gopt .
//
//	//gopt:batch B=16
//	func (t *Table) Get(k uint64) (value uint64, ok bool) { ... gopt.Expensive(b) ... }
//
//	gopt .           translate the package in this folder
//	gopt ./a ./b     ... in these
//	gopt --check .   write nothing; fail if a file is not what it would be
//
// The file gopt_NAME.go gets what NAME.go asks for; one that nothing asks for any more is removed.
// Files are of the platform that the go command builds for, without tests. Package gopt/translate
// has the directive, what can be translated, and what is refused.
//
// It depends on the standard library and the flags' parser alone: text is cut and put together, so
// that comments need no syntax tree of another module, and types come from the go command.
//
// # Map
//
//	owns       reading and writing the files of packages
//	called by  go generate, people
//	never      a file is written when a function was refused, or one that it has not generated
package main
