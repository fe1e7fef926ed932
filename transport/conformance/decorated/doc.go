// Package decorated runs the tests of package conformance over a transport in each decorator of
// the library: a capture, faults that do not happen, and lent packets change nothing of what a
// transport promises.
//
// # Map
//
//	owns       the list of decorators, and how each is put around a transport
//	called by  tests of each transport
//	never      a decorator is tested over some transports only
package decorated
