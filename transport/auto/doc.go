// Package auto carries packets over shared memory to peers on the same machine and over
// kernel UDP to all others, and finds out by itself which is which. An endpoint is a UDP
// socket with an endpoint of shared memory beside it; applications only see "host:port".
//
// # Map
//
//	owns       a udp and a shm endpoint under one address
//	called by  erpc by the contract
//	never      a peer of another machine is taken for one of this machine
//
// # Who is reached how
//
// Resolve decides. A peer is reached over shared memory if its IP address is one of this
// machine, and an endpoint of this package that is bound to exactly this address, or to
// all addresses, answers in the directory of shm.Config. Its name there holds the network
// namespace, the IP address and the port of its UDP socket, so neither another machine nor another
// container with the same address is taken for it. Everybody else is reached over UDP: other
// machines, plain UDP peers, processes of other users, also with shm.Config.AllowOtherUsers, since
// a name in shared memory does not say whose a UDP port is.
//
// The two ways have addresses that cannot be confused, see shm.IsAddr. LocalAddr is that of the
// UDP socket, since people pass that one around, but a peer reached over shared memory
// sees another one in RxPacket.From, and gets it from Resolve. The text of either resolves.
//
// The choice holds as long as the address is used. If a peer restarts, its address in
// shared memory is dead for good: packets there are dropped, so sessions fail, and a new
// session needs a new Resolve, which finds the peer as it is now. Rpc.CreateSession of package
// erpc, and a Client for each new session, resolve each time. Both ways tell when a peer has gone,
// see [Conn.Hints].
//
// Packets over shared memory pass no firewall and no address translation of this machine.
//
// # When both are polled
//
// RxBurst looks at shared memory each time. A look at the socket is a system call: where
// this was measured, an RxBurst that finds nothing took 510 ns with it and 17 ns without. So while
// packets come over shared memory, the socket's turn is only every 10 us. That costs shared
// memory a few percent, and adds at most the 10 us, or one pass of the caller's loop, to UDP.
// When nothing has come over shared memory for 50 us, and after a Wait, RxBurst looks at
// both each time. Neither can starve the other.
//
// # Limits
//
// Each destination has the [transport.Path] of its way, from package shm or from package udp.
// So sessions of both kinds are the same as with that package alone. Only Caps holds for both: the
// MTU is the larger one, the ring the smaller one, the rest is that of UDP.
package auto
