// Package sectest makes certificates for tests, and watches nonces.
package sectest
