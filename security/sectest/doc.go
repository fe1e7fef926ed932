// Package sectest makes certificates for tests.
package sectest
