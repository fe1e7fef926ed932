// Package debug lets other programs of the same user look into a running one, over a unix socket of
// its own: the command erpc with top and trace, or curl. A program opens it with [Listen]; without
// that there is none.
//
// # Map
//
//	owns       a unix socket, its folder, the files of dumps
//	called by  programs that want to be watched; erpc top and erpc trace ask
//	never      another user gets an answer, or passes for a program of this user; a question or a
//	           slow reader holds up a loop
//
// # What it serves
//
// HTTP with JSON, under /v1/:
//
//	GET  /v1/about             About: the program and its process
//	GET  /v1/snapshots?sessions=N   the erpc.Snapshots of all loops, with up to N sessions each
//	GET  /v1/flight            a file of flight.Write with the records of all loops
//	POST /v1/record?n=N        the loops keep their last N datagrams; 0 ends that
//
// # Who may look, and what it costs
//
// The socket is in a folder of mode 0700, itself of mode 0600, and each peer that connects is asked
// for by SO_PEERCRED: another user's is turned away, root's too. Systems without that have no debug
// socket. Records hold the payload of small messages.
//
// What another user of the machine can try:
//
//	makes the folder first, as they can   another one is used, of a name that cannot be foreseen
//	in /tmp                               ([Dir]); [Find] looks into no folder of others
//	listens where a program of this user  a [Client] asks who listens (SO_PEERCRED), before it reads
//	may be expected                       anything
//	connects                              is turned away, and does not count among the 16
//
// What a program says may still be chosen by others, as the names of its peers: who prints it
// escapes it, as erpc top does.
//
// Nothing here can hold up a loop. A request waits for loops no longer than Config.Timeout, a loop
// has one question at a time, and a peer that does not read is cut off. At most 16 peers are served
// at a time. A loop that does not answer gives its last counters, and its record stays.
//
// # Records on disk
//
// With Config.Dumps the socket's process also writes records by itself: at a signal, or when calls
// ended with certain codes. Their number is bounded.
//
// The package owns the socket and its goroutines; it calls only the methods of erpc.Rpc that are
// safe in any goroutine. The core does not import it.
package debug
