// Package measure has the subcommands of erpc that make traffic: server, demo, ping, call and the
// benches, with the flags of the network path, the endpoints and server processes that they run on,
// and comparisons of variants in turns.
//
// Measurements run in two processes, each with one event loop per thread, locked to an operating
// system thread and pinned to a core where the system can. While measuring, the garbage collector's
// target is raised (--gc, 400): the hot path allocates nothing, so a larger heap only keeps the
// collector out of the way. The server process is the program itself, with the subcommand server: a
// command that measures has that.
//
// Transports below IP never reach their own machine. To measure them on one, a bench makes two
// network namespaces without names, joined by a veth pair: its own threads enter one, its server
// process is born into the other. They go with the processes, however those end. With --veth kernel
// UDP is measured in the same way.
//
// Comparisons ([BenchFlags.Compare]) measure their variants in turns in one run, each beside a
// baseline, and report the median of the paired ratios: on a machine that others use too, only
// those say something. Threads and server processes that are not in turn sleep.
//
// # Map
//
//	owns       child processes, endpoints, loads, what they measured
//	called by  cmd/erpc and labs/cmd/erpc-bench
//	never      a result goes to standard error, or progress to standard output
package measure
