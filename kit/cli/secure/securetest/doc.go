// Package securetest tests that a command's flags of keys and certificates do what they should, and
// that each mistake with them is one line.
//
// # Map
//
//	owns       keys and certificates for one test
//	called by  tests of commands
//	never      a command imports it
package securetest
