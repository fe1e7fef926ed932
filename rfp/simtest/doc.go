// Package simtest runs package rfp's clients and servers on adapters in virtual time, one random
// cluster for each seed: geometries, modes, batches, deadlines, slow handlers, memory that is seen
// half written, machines that die and connections that break.
//
// Each run holds that calls end once, with the right bytes or an error that something explains,
// that handlers run at most once per call, and that nothing stands still. The same seed gives the
// same run.
//
//	go test ./rfp/simtest -run TestSeeds -seed=N -v
//	go test ./rfp/simtest -run TestSeeds -for 10m -from 100000
//
// # Map
//
//	owns       random clusters in virtual time
//	called by  go test
//	never      a run depends on anything but its seed
package simtest
