// Package clitest serves the tests of commands: it runs command lines in the test's process, and
// lets the test binary be the command for the processes that the command itself starts.
//
// # Map
//
//	owns       command lines run in a test's process
//	called by  tests of commands
//	never      a command imports it
package clitest
