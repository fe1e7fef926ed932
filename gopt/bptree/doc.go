// Package bptree is a static B+tree of numbers: built once from sorted pairs, then read. Nodes have
// two cache lines and sixteen children, whose places follow from the node's own, so that no
// pointers are stored. Package index is the tree that can be written to; this one shows what is
// left when a lookup is nothing but memory.
//
// # Map
//
//	owns       the nodes of a tree that was built once
//	called by  programs with sorted numbers; benchmarks here
//	never      a tree changes after it was built
package bptree
