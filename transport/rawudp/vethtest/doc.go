// Package vethtest gives tests a network of their own: two network namespaces joined by a pair of
// virtual Ethernet interfaces, or by two pairs and a router, or several on a bridge. It is gone
// when the test ends. It needs root; without, tests are skipped, but in CI (CI=true, as root) a
// missing network is a failure.
//
// # Map
//
//	owns       network namespaces and veth pairs of a test
//	called by  tests
//	never      something stays behind when a test has ended
package vethtest
