// Package hostiletest holds tests only: hostile peers and bad networks against the library over
// real UDP on the loopback. They count how often each request ran, by its id.
//
//	middle_test.go        a man in the middle who loses, repeats, holds, damages and forges packets
//	flood_linux_test.go   strangers from as many addresses as the time allows
//	crash_linux_test.go   kill -9 and SIGSTOP of server and client processes
//	cancel_test.go        calls that are given up at any moment
//	forger_test.go        packets with guessed tokens from the addresses of honest peers
//	token_test.go         packets with right tokens of which one other thing is wrong
//	soak_linux_test.go    a thousand callers of Clients and a Pool, two groups of loops, bad handlers
//	repeat_test.go        one client that repeats what was answered
//
// make test runs them for some seconds each; make hostile runs them for minutes, and make soak and
// make soak-tls the soak alone for an hour under the race detector, see the flags in main_test.go.
// Every choice comes from a seed, which a failure prints: the script of faults is the same each
// time, while the kernel decides which packet meets which fault. Nothing is asserted about time.
// Spans of time bound only what would never end.
//
// # What a network may do
//
// With checksums on, a network that does not forge gets nothing wrong: what succeeded ran once,
// and nothing ran twice. With checksums off this holds as long as packets arrive whole or not at
// all. Whoever reads packets and writes checksums and tokens as the sender does can make the
// server run anything, since nothing is encrypted: there the tests ask only that nobody panics,
// hangs or grows, and that new sessions work afterwards.
package hostiletest
