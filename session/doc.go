// Package session is one session: the client's and the server's half of the wire
// protocol (eRPC, section 5), connecting, and watching that the peer lives.
//
// It does no I/O, reads no clock, starts no goroutine and knows no transport. Its
// owner gives it packets and the time ([Arrival]). It leaves everything that follows in
// an [Out] that the owner keeps: packets to send, and outcomes, which are [Event]s in the
// order in which they came about. Nothing is returned, so nothing can be overlooked. So the
// simulator and production run the same code.
//
// # Parts
//
//	End        names and agreed parameters of one end of a session, in either half
//	Client     the requesting half: slots, credits, queue, go-back-N, RTO
//	Server     the answering half: slots, duplicate suppression, responses
//	Dialer     the client's handshake: Connect, Challenge, Connect, Accept
//	Cookies    the server's half of it, without state until the address is proved
//	Liveness   heartbeats of either half: is the peer there, is it the same one
//
// # Who owns what
//
// A request's two buffers belong to the session from Client.Start until the event
// (or the error) that ends the request. A response buffer belongs to the server
// half from Server.Respond until the next request uses the slot. Buffers that the
// session owns are in the state msgbuf.OwnerLibrary.
//
// A packet in Out refers to these buffers. In the common case a buffer is out of
// all queues when its request ends, because the answer proves it was sent. After a
// retransmission that proof fails, as it does when a request is cancelled, a session ends, or an
// error refuses the first packets of many. Then [EventFlush] stands before the event that gives
// the buffer away: the owner sends what is queued and flushes the transport (eRPC, section
// 4.2.2). A response's buffer that its slot gives up early waits in the Out for a flush.
//
// # Memory
//
// Buffers of more than 512 bytes that slots of a Server keep, of requests and responses, count in
// the [Account] of the peer. What it refuses is answered with the error "exhausted", and that
// answer is remembered. A request's buffer grows with its packets: all unfinished requests of a
// peer have at most twice the bytes that it has sent, and what the [Bank] lets it lean.
//
// An unfinished request, or a response of several packets, that the client has asked nothing for
// in FailureTimeout gives its buffer up ([Memory]); in hasteFactor times RTOMax when memory is
// scarce. A client that waits repeats something once per RTOMax at least. If the server told it to
// wait, the server repeats the answer, which stays until that ends. So either the client does not
// wait any more, or several packets in a row were lost. Then its next one is answered with an
// error, which says whether the handler ran; it does not run again.
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
// # Fewer control packets
//
// The client decides which request packets get a CR (all but those with the quiet flag), and how
// many response packets an RFR asks for. Less than a stride of credits, over all slots, is ever
// spent on packets for which no CR was asked yet, so nothing can wait for ever. While a session is
// paced every packet gets its CR, since the rate follows them; so do packets that are sent again.
//
// # Loss
//
// The base is go-back-N after a timeout that follows the measured RTT. Two kinds of
// evidence are faster: a response packet ahead of the expected one, and the server's
// word (a CR with the gap flag) that it misses a packet before the one it got. Both
// count only if they answer packets sent since the last rollback, which the try tells.
package session
