// Package ahocorasick finds many patterns in many packets, each packet with the automaton (DFA) of
// its kind, as Snort's packet filter does (Aho and Corasick, CACM 1975; G-Opt paper, section 5).
//
// There is no prefetch here: the next state depends on the one before, and on a byte. [Set.Scan]
// goes through one packet after the other. [Set.ScanBatch] sorts the packets by automaton and
// length, and interleaves those that stand together: their loads overlap, and the states of one
// automaton stay in the caches.
//
// # Map
//
//	owns       a set of automata
//	called by  programs that search packets; nothing in this repository but benchmarks
//	never      a set changes after it was built
package ahocorasick
