// Package session is one session: the client's and the server's half of the wire
// protocol (eRPC, section 5), connecting, and watching that the peer lives.
//
// It does no I/O, reads no clock, starts no goroutine and knows no transport. Its
// owner gives it packets and the time ([Arrival]). It leaves everything that follows in
// an [Out] that the owner keeps: packets to send, and outcomes, which are [Event]s in the
// order in which they came about. Nothing is returned, so nothing can be overlooked. So the
// simulator and production run the same code.
//
// # Map
//
//	owns       one session's slots, credits, queue, timers and handshake
//	called by  package erpc, with packets and the time
//	never      it reads a clock, does I/O, or believes a packet of another incarnation
//
// # Parts
//
//	End        names and agreed parameters of one end of a session, in either half
//	Client     the requesting half: slots, credits, queue, go-back-N, RTO
//	Server     the answering half: slots, duplicate suppression, responses
//	Dialer     the client's handshake: Connect, Challenge, Connect, Accept
//	Cookies    the server's half of it, without state until the address is proved
//	Liveness   heartbeats of either half: is the peer there, is it the same one
//	PathProbe  does the path still carry packets of this size
//
// # Who owns what
//
// A request's two buffers belong to the session from Client.Start until the event (or the error)
// that ends the request. A response buffer belongs to the server half from Server.Respond until the
// next request uses the slot, or until the client acknowledges the last packet of a large response.
// Buffers that the session owns are in the state msgbuf.OwnerLibrary.
//
// A packet in Out refers to these buffers. In the common case a buffer is out of
// all queues when its request ends, because the answer proves it was sent. After a
// retransmission that proof fails, as it does when a request is cancelled, a session ends, or an
// error refuses the first packets of many. Then [EventFlush] stands before the event that gives
// the buffer away: the owner sends what is queued and flushes the transport (eRPC, section
// 4.2.2). A response's buffer that its slot gives up early waits in the Out for a flush.
//
// # Losses
//
// A client goes back to the first packet without an answer (go-back-N) when it has waited for the
// timeout, or on evidence: a gap that the server names, a response packet out of order, or a packet
// sent later that was answered while this one waited for twice a round trip and its handler (RACK,
// RFC 8985). That packet may be of any session on the same [Link]: packets that travel together are
// lost together. Small requests travel in one datagram, so all that is on its way may be lost at
// once, and nothing is evidence. Then each session's last one goes again after the same time: if
// its answer may be to the second copy, all that the session sent before it is lost.
//
// A handler may be slow instead, or the path: so the time grows with what handlers take, doubles
// with each answer to what was sent again, and halves with some tens of samples. It doubles with
// each repeat, too, and after three without progress only the timeout counts. So wrong evidence
// costs three packets per request at most, and one if the server says that its handler waits.
//
// # Memory
//
// Buffers of more than 512 bytes that slots of a Server keep, of requests and responses, count in
// the [Account] of the peer. A request that it refuses is answered with the error "exhausted", and
// that answer is remembered. A request's buffer grows with its packets: all unfinished requests of
// a peer have at most twice the bytes that it has sent, and what the [Bank] lets it lean.
//
// A response counts from before its buffer is there ([Server.Make], Prealloc) until the client has
// moved on: what the handler has made counts for its slot, and the answer takes that over; what is
// over goes back then. A handler in another goroutine takes from the bank itself, and its owner has
// the account adopt that ([Account.Adopt]) before it hands the response to the session.
//
// An unfinished request, or a response of several packets, that the client has asked nothing for
// in FailureTimeout gives its buffer up ([Memory]); in hasteFactor times RTOMax when memory is
// scarce: twice the longest timeout of slow paths. A client that waits repeats something once per
// RTOMax at least, on a path that is known to take longer once in slowFactor times that. If the
// server told it to
// wait, the server repeats the answer, which stays until that ends. So either the client does not
// wait any more, or several packets in a row were lost. Then its next one is answered with an
// error, which says whether the handler ran; it does not run again.
// After an absence of its own an endpoint gives nothing up until clients had hasteFactor times
// RTOMax to ask.
//
// # Numbers
//
// Slot = request number mod slots; slots is a power of two. A slot's request
// numbers grow by slots. One counter does for both directions of a request: client
// packet k is answered by server packet k, so the next packet that the client
// expects has the number of packets it has received (numRx), and a packet is
// acceptable only if numRx <= number < numTx. The server takes requests in order, so
// a CR or response packet 0 that is ahead of numRx speaks for the packets before it;
// a later response packet ahead of numRx means that some before it are lost.
//
// # Window
//
// Both sides agree on as many credits as the smaller of their receive queues holds, shared among
// sessions: no packet says more of it, and peers of releases before offer fewer. The client decides
// how many of them it uses, its window ([Client.SetWindow]). Where the owner fixes it that is all
// of them (eRPC, section 4.3.1). Else it begins with what fits any path, or with all that a peer of
// many sessions has agreed to, and follows this one:
//
// A round is the time from an answer to the first answer to a packet that was sent after it. It
// counts if packets lacked credits in it, and if the session was not at rest. Until a queue is met
// the window grows to one and a half times what a round has answered. Then it is as much as the
// path carries in the least time from a packet to its answer, a sixteenth more, and the time that
// hosts may hold packets up. Hold times are not taken off: a host that says too much would shrink
// it. The rate is the largest of 8 to 16 rounds, as BBR takes it (Cardwell et al., "BBR", ACM Queue
// 2016).
// That sixteenth is a queue so short that few switches notice, and shows if the path has become
// faster. A round of more than twice that time has met a long queue: it takes three tenths off the
// known rate.
//
// A loss takes three tenths off the window, once for all that was under way. For 32 counted rounds
// it does not grow then, and after that by a stride per round. What was learned is forgotten when
// nothing was asked of the path for a second.
//
// # Slow links
//
// The window is never smaller than at first, unless the path turns out to be slow: round trips are
// longer than the path and the hosts by 2 ms and their variation, more than a fifth of the packets
// are lost, or nothing at all comes back before anything is known. Losses of wires do not count.
// Then the window holds one packet more than the path carries in its time and those 2 ms. Each
// session keeps the same in the queue, so shares are equal (Brakmo, "TCP Vegas", SIGCOMM 1994). It
// grows by a quarter per round while there is no queue; a loss takes three tenths, and is followed
// by single steps; a timeout in which nothing came back leaves one packet, or as many as the owner
// keeps at least ([Client.SetLeastWindow]), and repeats go out ever more seldom from there. Each
// packet asks for an answer of its own then.
// A message begins with 8 packets on a path that has answered no part of a message yet. Timeouts
// follow round trips up to 4 times RTOMax, and answers to copies that were sent before a timeout
// count as round trips where it is known which copy they answer: a queue may be longer than the
// largest timeout. They follow hosts, too, that are too late to say how late. The tables
// TestSlowLinks and TestBusyHosts of package simtest show what comes of it.
//
// Small requests do not see any of this: an estimate exists once packets have lacked credits, and
// only answers to parts of larger messages count. A hold time that is too long for its field gives
// no round trip; where that goes on it counts as the longest that could be said. A server that lies
// about hold times makes the path look shorter, so its client slower; one that answers what it has
// not got draws more packets to itself, no more than it agreed on. What the client keeps for a
// packet in flight is its time, 8 bytes. The server keeps nothing for a credit: requests under way
// count as said in Memory, and of packets behind a hole the first 256 are kept, see Loss. What is
// behind those goes again.
//
// # Losses alone
//
// A session that shares its path with TCP may follow losses in place of all that
// ([Pacing].Losses): its window is CUBIC's (RFC 9438, package cc/cubic), at first 8 packets and at
// most the credits that were agreed on, also where the owner fixes them. It grows for each packet
// that is answered, small messages too, while at least half of it is in use. A loss takes three
// tenths, once for all that was under way, and nothing leaves for half a round trip; a timeout in
// which nothing came back leaves one packet.
// A packet that waits for its handler is no loss, however late: so requests of one packet, of
// which no more than the slots are under way, have no part in it. Each packet asks for an answer
// of its own: with strides, what a slot has sent without asking waits, beside slots that go on,
// until it looks lost.
//
// A server that lies draws more packets to itself, no more than it agreed on.
//
// # Fewer control packets
//
// The client decides which request packets get a CR (all but those with the quiet flag), and how
// many response packets an RFR asks for: a stride of them at most, and while the session is paced
// as many as the rate limiter lets leave together. Less than a stride of credits, over all slots,
// is ever spent on packets for which no CR was asked yet, so nothing can wait for ever. Packets
// that are sent again get one too.
//
// Credits that come back are handed out as soon as there is a stride of them, or when all packets
// of a burst are taken ([Out.Feed]). One by one, as they come, each would be a packet that asks for
// an answer of its own. Messages that are sent and responses that are asked for take turns, a
// stride in each. Of either kind the message with the fewest packets left gets half of the turns,
// and the rest get theirs one after the other: no message waits much longer than at equal shares,
// and calls that begin together fill both ways of the path all the time.
//
// # Rows
//
// Where packets pass through the kernels of hosts ([Pacing].Hosts) each departure costs a system
// call, and a wake-up if the rate has held it back. So a session below link rate sends its
// packets in rows there: it waits until 4 ms of its rate have gone by, or the time of eight
// packets, and then sends them together. What waits until then is still within the rate. A
// request of one packet whose turn it is does not wait for a row, and a window with fewer free
// credits makes a shorter one. A row leaves as one train, and where it is received as one its
// answers come back in one bundle.
//
// A path that takes rows apart would take them for a queue. So rows have two packets at first, and
// double while all answers to one come within the time that hosts add to round trips; when one
// comes later they halve. The first answer of a row stands for all: the others met the row itself.
//
// # Loss
//
// The base is go-back-N after a timeout that follows the measured RTT. Two kinds of
// evidence are faster: a response packet ahead of the expected one, and the server's
// word (a CR with the gap flag) that it misses a packet before the one it got. Both
// count only if they answer packets sent since the last rollback, which the try tells.
//
// Packets that come though earlier ones are missing are kept, up to 256 ahead: by the client those
// of a response, by a server those of a request for which its buffer has room already. The client
// knows the holes of a response, and the server's word names the first one of a request. Then only
// that hole is sent again, and the answer to its last packet speaks for those that were kept: the
// next hole follows, a round trip later. A server that keeps nothing, as those of before, names no
// hole, and the client goes back to all of it. If what follows the hole is missing too, twice as
// much goes again with each round trip. What goes again alone has nothing behind it that could tell
// of its loss: so it goes again after the time of the last packet (see Losses).
//
// # Repeats
//
// A server answers the same packet (slot, number, type, try) once in a quarter of the least
// timeout, and all repeats of a slot in that time no more than four times what its client can be
// waiting for. So repeats, honest or not, cost the server little.
//
// # Waiting
//
// A request whose handler has not responded when its last packet comes again is told to wait
// (WAIT): it gives its credit back and is not repeated. A handler that knows can say so at once.
// The session agreed on how many of its requests may wait; the others are told to keep their
// credits (the keep flag), and their timeouts go on. The answer to a waiting request is late: this
// is the one thing that a server sends by itself. It repeats response packet 0 (or the error), with
// backoff after a round trip that it measures, until an ACK, an RFR, a newer number, a CANCEL or
// the session's end, and at most for FailureTimeout. The client acknowledges every late answer that
// is not ahead of its slot, also to requests that it has forgotten. It asks after each waiting
// request at least once in half a FailureTimeout, so one that the server has lost ends.
//
// # Giving up
//
// CANCEL is a hint: it may be late or early. A number that was cancelled before it came never runs:
// a late copy of it is refused. While a cancelled handler runs, its slot and the request's memory
// are its own; its owner is told (EventCancelled), and what it responds is dropped.
//
// The client's slot stays in use as well, so that no request waits behind a handler that nobody
// waits for (Client.Held). CANCEL is repeated, as a request is, until PAST answers it, which says
// whether the handler runs. If it does the client asks no more than once in half a FailureTimeout:
// a PAST follows when the handler has responded, and only that may be lost. Then the slot is free
// (EventFreed). A client that uses it earlier, as older ones do, is told to wait; its newer number
// says the same as CANCEL.
//
// No packet advances a slot by more than 65,536 uses: more is damage or an attack. A request of
// which nothing was sent uses no number. When a slot has no number left the session takes no new
// request (EventSpent), and its owner opens another one.
//
// # Past
//
// A server answers a packet whose number has passed by PAST. A client heeds it for the number under
// way only. Four tries of it in a row end the session (EventBroken, ErrOutOfStep): a damaged number
// that no checksum caught has used up its slot, and the call would never end. PAST gives no credit,
// is no progress, and does not prove that a handler did not run.
//
// # Smaller packets
//
// Packet numbers depend on the bytes per packet, so each packet names its cut, and both sides take
// packets of their slot's cut only. The client decides: it counts a request anew in a smaller cut,
// under its number, when the request times out after the session was lowered. A server that meets a
// smaller cut counts both parts anew: a request that is not complete starts over, a complete one is
// there in more packets, and a response starts over. Handlers are not started again. The cut of a
// request never grows, so it is counted anew three times at most.
//
// The client suspects its packet size after two timeouts in a row (Client.Suspects), until the
// request gets an answer (Client.Recovered). Its owner finds out with a PathProbe: pings of that
// size, which are answered in their size, beside pings of the smaller ones. Congestion loses
// packets too: so a session with large messages is paused meanwhile (Client.Pause), until queues
// are empty, and the path counts as one that does not carry the size only when a smaller ping was
// answered a dozen times in which the large one was not, and no large one ever was. Pings follow
// each other as they are answered, so that probes of many sessions do not fill a slow link.
//
// A session that was lowered is raised (Client.RaiseCut) when a ping of a larger size is answered,
// for which its owner asks now and then. Requests that begin then have the larger packets, and the
// server's bundles follow. Each request says its cut, so servers need to know nothing of this.
//
// # Bundles
//
// Between two endpoints that agreed on it small packets travel in bundles (package wire). A
// batch copies its packets for a peer, of all sessions, into one memory as they are queued; nothing
// waits for company. A [Link] stands for the peer: all sessions with it share one. A bundle ends
// when the next packet does not fit into what the path carries, when a packet that is alone comes
// behind it, so that none is overtaken, and when the batch leaves ([Out.Finish]): then hold times
// grow, and after that it gets its checksum. A full one is padded, since trains want packets of one
// size. Full packets of the batch are one train as well: credits that were returned between them,
// and ends of large messages, follow in bundles of their own. Messages of one packet are before it.
//
// A lost bundle is several lost packets, and nothing else: credits, tries, gaps and round trips are
// those of packets. A bundle refers to no message buffer, so what it carries can be given back at
// once; the rules above treat it as if it did.
//
// # Draining
//
// A server that shuts down tells each client until it acknowledges that. The client sends nothing
// new (ErrDraining), requests under way go on. Requests that crossed the notice are refused by an
// error that says that no handler ran. The notice says what was taken last in each slot
// (Server.AppendTaken), as a Disconnect does: what is behind that certainly never runs
// (Client.NotTaken). Of the rest the notice, or silence, proves nothing.
//
// # What a peer can do wrong
//
// A session's packets are recognised by number and token, also inside a bundle: a peer may use the
// number of a session that has not ended here for a new one.
//
// Every answer is checked against the packets that were sent, every request against those that the
// slot has seen. A packet that does not fit is counted in Stats and dropped. A peer makes a session
// keep no more than its slots and the agreed sizes allow, and send no more than the peer sends.
package session
