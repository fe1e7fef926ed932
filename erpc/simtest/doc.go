// Package simtest holds no code but tests: the endpoint of package erpc, as it runs
// in production, over the deterministic network of package transport/sim.
//
// TestSeeds runs many small clusters, each decided by its seed: nodes that call each
// other while packets are lost, doubled, damaged and held, links are cut, and
// processes crash, restart and stop for a while. In a fifth of the seeds clocks go back, jump and
// drift. After each run the promises of the
// library are checked: every RPC ended exactly once, no handler ran twice for one
// request, contents are exact, and nothing is left over. A failure is repeated by
//
//	go test ./erpc/simtest -run TestSeeds -seed=N -v
//
// with -trace for what the network did; -from=N -for=10m runs as many seeds from N on as
// there is time for (make seeds). A third of the seeds run on transports
// that lend (package transport/lending), so that a buffer that came back too early is noticed.
//
// TestAdversary runs clusters in the hands of an attacker who is a member, too. TestCorpus, with
// -corpus, makes the files adversary* below testdata/fuzz of its runs, seeds of fuzz targets.
// The other tests direct one event each.
package simtest
