// Package simlab repeats the cluster experiments of the eRPC paper (NSDI'19,
// sections 6.3 to 6.5) with the library's own engine in a simulated network
// (package transport/sim). Time is virtual: a run depends on its configuration and
// its seed alone, and the same ones give the same result byte for byte.
//
// Each experiment is a function that takes a context, a configuration and a
// Progress function, and returns a result that encodes to JSON. When the context
// ends first, the result holds what was finished and says so. Nothing here prints.
//
// The simulated machines are idealised: a thread takes a fixed processor time per
// packet and per pass of its loop, nothing else runs, and nothing is lost but by
// full queues and injected faults. So two rows of one result
// differ only in the parameter that the experiment varies.
//
// # Map
//
//	owns       the cluster experiments of the paper
//	called by  erpc sim
//	never      a figure depends on the machine
package simlab
