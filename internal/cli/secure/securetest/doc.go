// Package securetest tests that a command's flags of keys and certificates do what they should, and
// that each mistake with them is one line.
package securetest
