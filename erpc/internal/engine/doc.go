// Package engine is an endpoint without I/O: sessions, what two endpoints know of each other, and
// how both come and go. Package erpc stands on it.
//
// # Map
//
//	owns       sessions by number, associations, handshakes, quotas, timers, of one loop
//	called by  package erpc, with packets, ticks and the time
//	never      it calls the application, does I/O, or takes what a peer has not proved
//
// # In and out
//
// An Engine belongs to one event loop, which calls its methods: a burst came (OpenBurst, OnPacket,
// OpenBundle, OnBundled, AnswerConnects), time has passed (Tick, Release), a session is to be
// dialled or ended (Dial, CloseConn, CloseAll, RefuseNew). What follows is in Engine.Out: packets
// to send, and events. The loop takes one event after the other and acts on it:
//
//	EventRequest                     a handler is to run; Hand is the session
//	EventDone, EventError, -Failed   a call has ended
//	EventOpened, EventDraining,
//	EventSpent, EventFreed,
//	EventSilent, EventCancelled,
//	EventUnreachable                 what became of a session, or of a request in it
//	EventClosed                      a session has ended: the loop calls Ended, and tells who has it
//	EventPace, EventLate, -Broken    the engine's own: the loop gives them to Settle
//	EventFlush                       the loop drains the transport
//
// So an engine calls nothing of the application, and knows no handler, no call, no Rpc. What it
// asks of the loop is in Port, and of the other loops of its address in Peers; neither is called
// for a packet of the common case. Who uses an Engine knows it as this concrete type: there is no
// interface call per packet.
//
// A Conn is one end of a session. Its owner makes its memory (Config.NewConn), so that a session is
// one object, and finds what it keeps of the session in Conn.Owner.
//
// # The parts
//
//	engine.go           the Engine, what it is made with, what it asks for, its errors
//	endpoint.go         a packet: whose it is; bundles, management packets, packets for another
//	                    loop; the record layer around bursts
//	conn.go             sessions by number, the word that this side shuts down, chosen ends
//	handshake.go        how sessions open and end: cookies, Connect, Accept, Disconnect
//	securehandshake.go  the client's side where packets are sealed: keys, tickets
//	halfopen.go         the server's side of that: clients that have proved an address alone
//	abandoned.go        sessions that their servers open when nobody wants them here any more
//	keys.go             credentials, and workers for the steps of handshakes
//	association.go      what joins two endpoints; indices; keys that are lost or worn
//	liveness.go         pings, ICMP errors, incarnations, addresses that change
//	timers.go           what is due when
//	paths.go            what a path asks of its sessions, and packets that are too large for it
//	quota.go            what one address may use: sessions, work, memory
//
// # What a peer can do wrong
//
// A stranger gets no state before he has proved his address by a cookie, and no session before he
// has proved his identity where that is demanded; answers to him are no larger than his questions,
// and each kind has a budget. A peer finds a session only by its number, token and address, or by
// the association that opened his packet; so he touches no session of another one. What somebody on
// the path says in the clear (no keys, unreachable, moved, too big) is a question to the peer and
// never an end, but of an attempt to connect of which it repeats the nonce. Each part says in its
// file what it does not take, and docs/security.md whom that stops.
package engine
