// Package sectest makes certificates for tests, and watches nonces and what leaves in the clear.
//
// # Map
//
//	owns       certificates, watched nonces and watched datagrams for tests
//	called by  tests
//	never      production code imports it
package sectest
