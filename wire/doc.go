// Package wire defines what travels in a packet: the 24-byte header of every
// packet, the bodies of the management packets, bundles of packets, and the clear
// part of sealed datagrams.
//
// Nothing here allocates, does I/O or reads the clock. A packet is a []byte;
// [Header.Parse] checks every field that can be checked without knowing the session
// and fills in the [Header], a small value that holds the fields in host order.
//
// # Map
//
//	owns       the layout of packets, bundles, management bodies and sealed datagrams
//	called by  session and erpc; captures and dissectors read with it
//	never      a byte is used that was not checked; parsing allocates or panics
//
// # Header
//
// All integers are little-endian, all offsets fixed.
//
//	offset  width    field     unit and meaning
//	0       4 bits   type      packet type, see [Type] (low bits of the byte)
//	0       4 bits   version   protocol version, [Version] or [OldVersion] (high bits)
//	1       8 bits   reqtype   request type 0-254; in a management packet the [Op]; in what a
//	                           server answers the host delay, see below
//	2       16 bits  hold      response packet 0, ERR: time the server held the request,
//	                           in units of 64 ns ([HoldUnit]); 65535 means "longer,
//	                           or unknown". Any other packet: the try in the low 6
//	                           bits, and if it is an answer a hold time in units of
//	                           1.024 us above, of which 1023 means the same; see below.
//	                           Request packet 0: the time left above the try, 5 bits mantissa,
//	                           5 bits exponent, us ([TryRemaining])
//	4       28 bits  msgsize   size of the whole message in bytes, at most [MaxMsgSize];
//	                           in an RFR how many response packets more than one it asks for
//	4       4 bits   flags     bit 28 CE echo; bit 29 quiet (REQ), gap (CR), late (RESP, ERR) or
//	                           keep (WAIT); bits 30 and 31 the cut
//	8       24 bits  session   session number at the receiver, or [NoSession]
//	11      7 bits   loop      the receiver's loop, 0 if it has only one (low bits of the byte);
//	                           without a session the loop that the sender asks for
//	11      1 bit    phase     zero; in a sealed datagram the key phase stands there. Without a
//	                           session a receiver skips it, with one it refuses others
//	12      32 bits  token     token of that session at the receiver; see below
//	16      44 bits  reqnum    request number within the session (low bits of the word)
//	        20 bits  pktnum    packet number within the request (high bits)
//
// # Versions
//
// Two versions are spoken. The version is that of the packet: one that answers says that of the one
// it answers, and all packets of a session say that of the Connect that opened it. A receiver drops
// others of the session. In version 2 ([OldVersion]) the last word is 48 bits reqnum and 16 bits
// pktnum; an answer has the request type of its request; and a CR never has a body. The rest is the
// same. Nothing of version 2 is sealed, and nothing of it opens what is sealed.
//
// A client begins with version 3. A server of version 2 alone refuses that ([VersionRefusal]); then
// a client in the clear goes on with version 2.
//
// # Answers
//
// Nobody sends host delays yet; all receivers of version 3 take and ignore them.
//
// The request type of an answer (CR, RESP, ERR, WAIT, PAST) says nothing that the client does not
// know. Byte 1 is the host delay in its place: how long the packet that is answered was in the
// server's host, 4 bits mantissa and above it 4 bits exponent, in units of 1.024 us ([HostDelay]);
// 0 means that nothing is said. No value of it is refused. Who looks on learns an answer's request
// type from its request.
//
// A CR with the gap flag may have a body of 1 to 32 holes, the packets that the server misses
// ([Holes]); msgsize is its size then. What is behind a hole is kept at the server. A list may end
// before the last hole, and servers send the first one only. Clients may ignore it:
//
//	offset  width    field     unit and meaning
//	0       20 bits  first     number of the first missing packet (low bits of the word)
//	        12 bits  count     how many are missing, less one (high bits)
//
// Holes are in ascending order and neither touch nor overlap.
//
// # Opening a session
//
// The client sends a Connect, the server answers with a Challenge, the client repeats its Connect
// with the cookie, the server answers with an Accept. Both Connects say the same, all but the MTU,
// which a client lowers when the path does not carry it, and the padding; the cookie is a MAC over
// the address and over what stays the same ([Fixed]). Features are 32 bits; what needs more room is
// an [Extension], and a receiver skips those it does not know. Sizes of management bodies are
// minima. A version that is not spoken is refused by a packet that names those that are
// ([VersionRefusal]); it and what it needs of a Connect never change.
//
// # Loops
//
// A server may run several event loops on one address. It numbers them from 1, and the numbers of
// their sessions say the loop, so that any receiver of a datagram finds the loop at a fixed
// place: bits 24 to 30 of the session field, byte 11 of the datagram. A server with one loop says
// 0. To a client loop and number together are a name of 31 bits that it repeats. A Connect has no
// session, and may arrive at any loop. The cookie that it repeats is the server's own, and a server
// with several loops writes into it, at [CookieLoop], which of them takes the session.
//
// # Packet numbers
//
// A request of N packets with a response of M packets takes N+M-1 packets each
// way. Client packet k is answered by server packet k (eRPC, section 5.1):
// request packets are 0..N-1; the credit return (CR) for request packet k < N-1
// carries k; response packet j carries N-1+j; the request-for-response (RFR)
// that asks for response packet j >= 1 carries N-1+j too. CR and RFR packets
// have no payload, but for the holes above.
//
// N and M depend on how many bytes a packet takes. That falls when the path of a living session
// carries less than it did. So each packet says its [Cut], and no packet of one cut is taken for
// a part of another.
//
// # Answers that are no response
//
// An ERR takes the place of the response, and may answer any packet of the request; its body is an
// [Error]. A WAIT answers the last packet of a request whose handler waits: it returns the credit
// and the client stops repeating, unless the keep flag says otherwise. The answer to such a
// request has the late flag: the server repeats it until the client sends an ACK. A PAST says that
// the slot has seen a newer request. A CANCEL gives a request up, and a PAST answers it. If its
// hold field says "longer than the field can say", a handler still runs in the slot, which takes
// no request: another PAST follows when it has ended. An ACK with the number of the last packet of
// a response of several says that all of it has come, and the server may forget it: clients send
// it for 1 MiB and more. PAST, CANCEL and ACK carry nothing but their numbers, and ACKs are never
// answered.
//
// # Fewer CRs and RFRs
//
// The server takes request packets in order, so a CR speaks for all packets before its
// own. A client that needs no CR for a packet says so with the quiet flag; a server may send
// it all the same, and does if the packet was marked by congestion. Likewise an RFR may ask for
// several response packets, the first of which it names; msgsize is how many more.
// A session agrees on how many packets one CR or RFR may stand for: a quarter of its credits, at
// most 8. Without such a request it is as in the paper: one CR or RFR for each packet.
//
// # Tries and gaps
//
// Request packets and RFRs carry the client's try: how often it has gone back in
// this request, mod 64. Their answers (CR, response packets from 1 on) echo it,
// so that the client knows which copy of a packet was answered.
//
// A server that gets a packet out of order drops it, and may name the one it
// misses: a CR with the gap flag, the number of the missing packet, and the try of
// the packet that came too early. It returns no credit.
//
// # Token and checksum
//
// The token is a random number that the receiver chose for this incarnation of
// the session. A packet with another token belongs to an earlier session, an
// earlier process or a forger, and is dropped. A token has 32 random bits:
// an attacker that cannot read the network but sends from the peer's address guesses it in 2^31
// packets on average. It does not stop a reader of the network; encryption is another layer.
//
// In a session that agreed on checksums, and in every management packet, the
// field holds token XOR CRC-32C of all other bytes of the packet, so that a
// single comparison checks both and the checksum takes no room.
//
// # Bundles
//
// A bundle is a datagram with several packets of any sessions between two endpoints, of any types
// but management. Sessions that agreed on [FeatureBundle] may use it. Version, session, upper bits
// and token stand where a packet alone has them:
//
//	offset  width    field     unit and meaning
//	0       4 bits   type      [TypeBundle] (low bits of the byte)
//	0       4 bits   version   that of all packets inside (high bits)
//	1       8 bits   count     packets inside, at least 1
//	2       16 bits  content   bytes of the records, which follow the header back to back
//	4       32 bits  zero      reserved; a receiver refuses others
//	8       24 bits  session   that of the first packet inside; never [NoSession]
//	11      7 bits   loop      that of all packets inside (low bits of the byte); a receiver
//	                           drops packets of others
//	11      1 bit    phase     zero
//	12      32 bits  token     of that session; with a checksum as above
//
// Bytes behind the records in the datagram are padding, and a receiver skips them. The checksum
// covers all of the datagram, the padding too. It stands for all packets inside, so sessions with
// checksums and sessions without do not share a bundle; nor do those of different versions. A
// record is a packet's header without what the bundle says, and its payload:
//
//	offset  width    field     unit and meaning
//	0       4 bits   type      as in a packet alone (low bits of the byte)
//	0       1 bit    another   bit 4: another session than that of the packet before; never in the
//	                           first record
//	0       1 bit    whole     bit 5: packet number and flags are 0, and the message is the payload
//	0       2 bits   zero      bits 6 and 7
//	1       8 bits   reqtype   as in a packet alone
//	2       16 bits  hold      as in a packet alone, and in the same place
//	4       16 bits  size      bytes of the payload
//	6       44 bits  reqnum    as in a packet alone (low bits)
//	        4 bits   upper     the upper 4 bits of pktnum (high bits); 0 if whole
//	12      32 bits  session   if another: its number, and the loop above as in a packet alone
//	        32 bits  token     if another: the token of that session, without a checksum
//	        28 bits  msgsize   if not whole: as in a packet alone
//	        4 bits   flags     if not whole: as in a packet alone
//	        16 bits  pktnum    if not whole: its lower 16 bits
//	                           then the payload
//
// In version 2 reqnum has 48 bits, and there is no upper. A packet inside obeys all rules of a
// packet alone. [Bundle.Parse] checks all of them before [Bundle.Next] hands out the first. A
// record that could be whole need not say so, but [PutRecord] says it whenever it can.
//
// # Sealed datagrams
//
// Where two endpoints have keys, each packet or bundle between them travels whole inside a sealed
// datagram ([AppendSealed]); package security encrypts and opens it. Only this is in the clear, and
// it is authenticated:
//
//	offset  width    field     unit and meaning
//	0       4 bits   type      [TypeSealed] (low bits of the byte)
//	0       4 bits   version   [SealedVersion] (high bits)
//	1       56 bits  counter   of the datagrams of this direction, whole
//	8       24 bits  index     by which the receiver finds the keys: it chose it, and to nobody
//	                           else it says anything. Never [NoSession]
//	11      7 bits   loop      the receiver's loop (low bits of the byte), where all packets have it
//	11      1 bit    phase     the low bit of the number of the key phase
//	12               the packet, encrypted, and a tag of 16 bytes
//
// Inside session, token and all else mean what they mean anywhere; byte 11 of the packet inside has
// no key phase. There are no checksums: the tag is one. A sealed datagram is 28 bytes longer than
// the packet, and the MTU that a session agrees on is that of the packet inside.
//
// Version and type of byte 0 are 3 and 11 together. [Header.Parse] refuses that type, and version 2
// that version, so no sealed datagram is taken for a packet. The packet inside has version 3 too.
// Sealed packets of version 2 had their header in the clear and keys that were found by address and
// session. They are not spoken any more, and there is no way down to them: a server of today
// refuses a Connect of version 2 with [FeatureSeal], and any without an index, with a text that
// names the versions; a client of today that seals ends its attempt where a server refuses version
// 3, or says another sealed version behind a Challenge's body.
//
// # Opening on an association
//
// Management packets of an opening in the clear are Connect, Challenge, Refuse and Crypto. They
// have no session number ([NoSession], beside it the loop they are for) and belong to one attempt,
// whose nonce they repeat.
//
//	C: Connect           offers FeatureSeal; its extension [ExtIndex] says the client's index and
//	                     loop. Session and token are none: what names the session is sealed
//	S: Challenge         behind its body: epoch u64, loop u8, sealed version u8, 6 B zero, of the
//	                     endpoint that takes the session
//	C: Connect, cookie   the padding begins with a chunk ([PutChunk]): the beginning of a handshake
//	both: Crypto         more of the handshake, a stream with offsets in each direction ([Crypto])
//	C: Open, sealed      a Connect's body, without a cookie, padded to the MTU it offers
//	S: Accept or Refuse, sealed
//
// A client that has opened an association with the endpoint of the Challenge before sends the Open
// at once. The nonce makes it idempotent. A server's tickets are Crypto too, sealed. A ping of no
// session asks, sealed, at an address where a client may be; its pong is sealed too.
//
// An endpoint that does not know an index says so by a NoKeys in the clear, which quotes the first
// [QuoteSize] bytes of the datagram: the clear part, and bytes that nobody guesses. It is as long
// as a ping, never longer than what drew it, and makes a client repeat the handshake at most.
package wire
