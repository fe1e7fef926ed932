//go:build race

package grpcerpc_test

const raceEnabled = true
