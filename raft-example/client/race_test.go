//go:build race

package client

// The race detector allocates, too.
const raceEnabled = true
