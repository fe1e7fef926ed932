// Package cpuquota counts how often the process was kept off all cores because its control groups
// (version 1 or 2) had used up their quota of CPU time. Containers with a CPU limit have one.
package cpuquota
