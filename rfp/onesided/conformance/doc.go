// Package conformance holds the tests that every implementation of package onesided passes.
package conformance
