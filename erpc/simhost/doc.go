// Package simhost runs endpoints of package erpc on the virtual cores of package transport/sim: a
// process of dispatch loops and background workers, whose handlers take as long as a model says.
//
// A [Process] is a Nexus in a simulation. Its handlers are registered with the Process, which calls
// [Config.Cost] before each of them and charges what it returns: to the loop that runs the handler,
// or to the worker. Its background handlers run in sim.Workers. Each [Loop] is an Rpc on an
// endpoint of its own, whose thread shares the cores of the endpoint's sim.Processor with all
// others that have been given the same one.
//
// The handlers and their answers are real. A handler in a loop runs at the beginning of
// the loop's burst, and its answer leaves when the time is over. A handler in a worker runs when
// its time is over.
//
// # Map
//
//	owns       simulated processes: loops and workers on virtual cores
//	called by  simulations, and the commands' experiments
//	never      a result depends on the machine or on real time
package simhost
