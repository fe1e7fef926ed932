// Command erpc demonstrates, measures and diagnoses the library. Each subcommand
// prints a table for people or, with --json, one JSON object for scripts; progress
// and logs go to standard error. Exit status: 0 done, 1 failed, 2 wrong usage.
//
// Measurements run in two processes, each with one event loop per thread, locked to
// an operating system thread and pinned to a core where the system can. While
// measuring, the garbage collector's target is raised (--gc, 400): the hot path
// allocates nothing, so a larger heap only keeps the collector out of the way.
//
// Transports below IP never reach their own machine. To measure them on one, a bench
// makes two network namespaces without names, joined by a veth pair: its own threads
// enter one, its server process is born into the other. They go with the processes,
// however those end. With --veth kernel UDP is measured in the same way.
//
// The experiments of "erpc sim" measure nothing of this machine: they run in virtual
// time (package simlab), and their results depend on flags and seed alone.
//
// Comparisons (bench factors, bench rate --versus) measure their variants in turns in
// one run, each beside a baseline, and report the median of the paired ratios: on a
// machine that others use too, only those say something. Threads and server processes
// that are not in turn sleep.
//
// # Map
//
//	owns       the command line, child processes, measurements
//	called by  people and scripts
//	never      a result goes to standard error, or progress to standard output
package main
