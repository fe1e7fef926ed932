// Package cli serves the project's commands: it parses and runs a command line, and has exit
// statuses, one line for each error, and child processes. Only commands import it.
//
// Results go to standard output and nothing else does; progress and errors go to standard error. A
// mistake in the command line is a [UsageError] and ends with [Usage], any other error with
// [Failed].
//
// # Map
//
//	owns       parsing, exit statuses, one line per error, tables, texts of figures
//	called by  commands
//	never      anything but results goes to standard output
package cli
