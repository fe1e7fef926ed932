// Package gid tells goroutines apart, to detect that something made for one
// goroutine is used by another. Go offers no identity for that on purpose; so this
// is for checks that name a mistake, never for program logic.
package gid
