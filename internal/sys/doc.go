// Package sys holds the few machine instructions that Go has no name for.
//
// # Map
//
//	owns       prefetches and other instructions
//	called by  hot paths
//	never      an instruction changes what a program means
package sys
