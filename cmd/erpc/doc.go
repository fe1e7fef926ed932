// Command erpc demonstrates, measures and diagnoses the library. Each subcommand
// prints a table for people or, with --json, one JSON object for scripts; progress
// and logs go to standard error. Exit status: 0 done, 1 failed, 2 wrong usage.
//
// The experiments of "erpc sim" measure nothing of this machine: they run in virtual
// time (package paperlab), and their results depend on flags and seed alone.
//
// What makes traffic, with its flags, is in package measure; commands that only compare are in the
// module labs (erpc-bench).
//
// # Map
//
//	owns       the command line, and what looks at programs, captures and machines
//	called by  people and scripts
//	never      a result goes to standard error, or progress to standard output
package main
