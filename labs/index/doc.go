// Command index measures package index beside tidwall/btree, a B-tree without and with a lock. It
// is a module of its own, so that the library depends on none of them.
//
//	go run . -keys 1000000 -rounds 7
//	go run . -gopt 1024
//	go run . -net udp -keys 16000000 -ready
//
// The rows take turns in each round. A ratio is formed within a round; the table has medians, and
// the range of the ratios. All memory is of the Go heap, in the pages that the system gives it:
// GODEBUG and /sys/kernel/mm/transparent_hugepage say which.
package main
