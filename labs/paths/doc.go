// Command paths is the lab of paths: it puts this library's clients and servers, real processes, on
// the networks that others' users met, and holds each to a bar. "make paths" runs it; Linux, as
// root.
//
//	bin/paths -list                     the cases: name, group, what befalls the path
//	bin/paths -cases mtu,pod-replaced   groups or cases, with commas between them
//	bin/paths -ci                       about a minute of them, which CI runs
//	bin/paths -json                     a line of JSON for each case; -v has the reports of all loads
//
// A row of the table is a case, its verdict, its figures, and in brackets its bars. Of several
// turns it has the median of times and rates, and the worst of counts. Exit status 1 means that a
// bar was missed or that the lab itself broke. A case that cannot be tried is void, with the
// reason; one that another suite holds names the test.
//
// # Topology
//
//	client ---- c  router  s ---- server
//	10.71.1.1   10.71.x.254       10.71.2.1      fd71:1::1, fd71:x::fe, fd71:2::1
//
// Each is a network namespace and a mount namespace, which a process of the lab holds: they vanish
// with it, also if the lab is killed. What befalls a path comes from the kernel (tbf, nftables,
// conntrack, links and addresses) or from the hop: a process between two TUN devices in the router,
// since delay, loss and an MTU that falls without a word need netem otherwise. The hop delays,
// loses by a seed, shapes with a queue that is bounded in bytes, and drops what is longer than its
// MTU, with or without the ICMP message, in each direction apart. Its devices can also be in client
// and server: then it is a tunnel.
//
// # Load
//
// A load is a process that calls all the time, checks each answer's bytes, and notes how each call
// ended: by its error's name, with the longest time without an answer, the time to come back, and
// the size of the packets, between the marks that a case sets. The server counts the runs of each
// id in a file that outlives it. So every case ends with the same questions: did a handler run
// twice, was a call answered that never ran, did one run that was said not to have run, did one
// never end, did an error have no name.
//
// # Files
//
//	net.go         hosts, links, names, firewalls, shaping
//	hop.go         the TUN switch
//	serve.go       the server process
//	load.go        the load process
//	bare.go        bare senders of datagrams, to compare with
//	deny.go        a launcher whose kernel refuses calls, and junk
//	trial.go       a run of a case: its processes, their marks, the comparison of ids
//	report.go      bars, medians, the table
//	cases_path.go  MTU, queues, loss, rates beside TCP, kinds of links
//	cases_share.go links that one process fills, or forty
//	cases_busy.go  links to a host whose processor others take
//	cases_away.go  NAT, firewalls, names, addresses, processes that stop or die
//	cases_host.go  containers, limits, memory; what is void or held elsewhere
//
// # Map
//
//	owns       namespaces, and the processes in them
//	called by  make paths, CI
//	never      something stays behind; traffic leaves the namespaces; a bar depends on another run
package main
