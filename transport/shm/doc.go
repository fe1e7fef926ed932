// Package shm carries packets between processes of one machine through shared memory:
// one copy into a ring by the sender, none by the receiver for large packets. It needs
// Linux 5.1 and no privileges; elsewhere [Listen] returns transport.ErrUnsupported.
//
// # Map
//
//	owns       rings in shared memory, one pair for each peer, and their bells
//	called by  erpc by the contract
//	never      a peer reaches memory of others, or passes for another user; a dead peer leaves
//	           files behind
//
// # Addresses
//
// An endpoint has a random address, which is never used again and names its user, and if it likes a
// name, "shm:NAME". Endpoints meet in a directory of mode 0700 that their user owns: each has
// a socket there, named after its address, and a name is a symbolic link to it.
//
// With [Config.AllowOtherUsers] the directory is root's, and in it each user has a folder u-UID
// with the sockets and names of that user's endpoints. "shm:NAME" is one of this user then, and
// "shm:NAME@UID" one of another, whom the caller means to trust with that name. Either
//
//	install -d -m 1777 DIR                        users make their folders themselves
//	install -d DIR; install -d -o UID DIR/u-UID   root makes them: nobody takes another's place
//
// # Connections
//
// [Conn.Resolve] and the first packet to an address connect. The side that
// connects makes the memory, a sealed memory file, and sends it over the socket:
//
//	connecting side                          accepting side
//	   | --- hello, memory file, own bell ----> |  checks user, seals, sizes, limits
//	   | <-- welcome, own bell ---------------- |
//	   | <== rings in shared memory ==========> |
//	   | <-- single bytes: wake up -----------> |
//
// When both connect at once, the connection of the smaller address is kept. The
// end of the socket is the end of the connection, also when a process is killed: what
// the other side sent before is still received, then its memory is unmapped by the
// first RxBurst that finds nothing more, since packets of the burst before may lie there. From then
// on [Conn.Hints] says that the peer has gone.
//
// # Memory
//
//	pair file:  | page: consumed positions | ring 0: connecting side writes |
//	            | ring 1: accepting side writes |
//	bell file:  | page: one count, odd while its owner sleeps; others map it read-only |
//
// Package shmem (internal) describes the rings, the writer of each word, and how a reader
// survives a writer that lies. In short: positions that a side trusts are its own,
// every shared word is read once and checked, and a wrong one ends that connection
// alone ([Conn.Stats] counts it as RxDropped).
//
// # Sleeping
//
// Wait makes its bell's count odd, passes a barrier (membarrier(2), so that
// senders need none), looks at all rings once more and blocks. A sender that sees the
// odd count after publishing sends one byte over the socket, once per sleep.
//
// # Full rings
//
// A full ring makes TxBurst take fewer packets. When its reader has not moved for 50 ms,
// packets to it are dropped and counted until it moves: a stopped process does not hold up others.
//
// # Threats
//
// Processes of the same user and root are let in, others only with
// [Config.AllowOtherUsers]. A peer is not trusted: it can write anything to the rings it
// shares with us at any time, send anything over its socket, and stop or die. It can
// neither make us read or write elsewhere, nor fault us (the file's size is sealed), nor
// take our wake-ups from others (it has neither our eventfd nor write access to our
// bell), nor end the connections of others (nobody but the two processes has their socket, and a
// second connection in the name of a peer is refused), nor use more memory than
// [Config.MaxMemory]. Packets of up to 256 bytes are copied out
// before anyone sees them; larger ones stay where the sender can change them, which
// transport.Path.Shared says, and RxPacket.Shared of each. It can make us busy, as any sender of
// packets can.
//
// Nobody else can touch packets, which transport.Path.Private says: only the two processes have
// the memory file. With [Config.AllowOtherUsers] it does not say so, as the peer may be anybody's.
//
// What another user can try, with that setting, and what comes of it:
//
//	puts files or links among ours        the folder u-UID must be its user's, and nobody else may
//	                                      write there; it is opened, then looked at, then used
//	makes our folder first                Listen says who did (ErrDirectory); root mends it, or
//	                                      makes folders beforehand, where users cannot
//	takes a name that a client looks for  a name is one of a user: the client says whose it wants
//	connects in the name of an endpoint   refused: an address names its user, and the kernel says
//	                                      who connects (SO_PEERCRED)
//	listens in the place of an endpoint,  refused by who connects, for the same reason: its address
//	also of one that has ended            never leads to another user
//	connects and says nothing             other users have 256 places for that, 5 s each, one user
//	                                      64 of them at most; a newcomer takes the place of the
//	                                      oldest, of the user with most; ours have other places
//	connects very often, or has large     a quarter of MaxPeers and MaxMemory for one user, three
//	rings                                 quarters for all others: we keep a quarter
//
// A user may have other numbers too (subuid(5)), each of which counts as a user here. All that a
// user namespace does not know are one user there, 65534. Between endpoints in different user
// namespaces the numbers differ, and they do not meet with this setting.
package shm
