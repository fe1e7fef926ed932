// Package cpuquota counts how often the process was kept off all cores because its control groups
// (version 1 or 2) had used up their quota of CPU time. Containers with a CPU limit have one.
//
// # Map
//
//	owns       counters of the process's control groups
//	called by  package erpc, when loops were late
//	never      a machine without control groups fails
package cpuquota
