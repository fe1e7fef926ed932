// Command callpath says how much code one call runs: the functions and files of each package that
// one steady Client.Call goes through on either side, over UDP between two processes. It counts
// what is the same in all of some calls: whether a loop sleeps or a timer is due varies.
//
//	go run ./scripts/callpath [-functions]
//
// It runs in the root of the module. A file that it counts is one that a reader of the call opens.
package main
