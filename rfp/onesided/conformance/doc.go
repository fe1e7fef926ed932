// Package conformance holds the tests that every implementation of package onesided passes.
//
// # Map
//
//	owns       the tests of the contract
//	called by  the tests of implementations
//	never      production code imports it
package conformance
