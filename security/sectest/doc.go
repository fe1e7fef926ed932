// Package sectest makes certificates for tests, and watches nonces.
//
// # Map
//
//	owns       certificates and watched nonces for tests
//	called by  tests
//	never      production code imports it
package sectest
