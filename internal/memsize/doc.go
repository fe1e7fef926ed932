// Package memsize tells how much memory a process can use: the machine's, or what its control
// groups (version 1 or 2) leave of it.
package memsize
