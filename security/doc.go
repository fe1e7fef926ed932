// Package security protects what two endpoints send each other: the handshake that makes keys, and
// the record layer that seals packets with them. It does no I/O, reads no clock and starts no
// goroutine (crypto/tls starts one per handshake, which ends with it).
//
// # Map
//
//	owns       keys, nonces and windows of one association
//	called by  package erpc, by its endpointSecurity
//	never      a nonce is used twice; a packet is believed that was not opened
//
// # Association
//
// An [Association] has the keys of one pair of endpoints, an endpoint being one event loop, and
// belongs to the side that made it: each side dials by its own. All sessions that a side has opened
// with the other share it. One thread owns it, so that its counter needs no lock. It says nothing
// of sessions, addresses or identities: package erpc's association owns those, and this one with
// them.
//
// A packet or a bundle of n bytes becomes a datagram of n+[Overhead] bytes (wire.AppendSealed):
//
//	0   u8    version 3 of sealed datagrams, and their type
//	1   56 b  the counter, whole
//	8   24 b  the index that the receiver chose for the association, see [Association.Address]
//	11  7 b   the receiver's loop; above it the low bit of the key phase
//	12        the packet as it is, encrypted; behind it a tag of 16 bytes
//
// The first 12 bytes are authenticated. Nothing else is in the clear, and nothing is read of a
// packet before it was opened. The packet's own session and token are inside and mean there what
// they mean anywhere, so a late packet of an earlier session under the same number is told from one
// of today's. What was opened stays where it is: nothing moves.
//
// The receiver finds the keys by the index alone, in one look-up, and whoever's keys open the
// datagram is its sender, wherever it came from. Version 2 found them by address, loop and session
// number, which anybody can copy, and was joined by proofs in the clear; neither is left.
//
// # Nonces
//
// Header fields repeat: a retransmission has the same request, packet and try, and under GCM a
// nonce that repeats with other bytes gives the key away. So each direction has a counter of 56
// bits, which counts datagrams that are sealed and never goes back. The nonce is a secret of 12
// bytes XOR the counter (RFC 9001, section 5.3). A packet that is sent again is sealed again, under
// another number. The counter is whole in each datagram: a receiver rebuilds nothing, and may have
// missed any number of them.
//
// Counters seen are in a window of [WindowSize] datagrams. Those that are older, or come twice, are
// dropped before a key is touched.
//
// # Key phases
//
// Both directions change keys together (RFC 9001, section 6). The side that opened the association
// begins: it seals in the next phase, and the other side follows when it has opened such a packet.
// It begins again only after that, so neither side is ever two phases ahead. One update is due
// every 2^28 packets or 2^38 bytes, or when the owner asks. A peer that does not follow gets no
// packets after twice as many, which is 2^35 blocks: the limit of AES-128-GCM for one key (RFC
// 9001, appendix B.1.1). The keys of the phase before open late packets, as far as the window
// reaches, and are gone then.
//
// Packets that are not opened are counted, because each is a guess. At 2^52 (AES-128-GCM) or 2^36
// (ChaCha20-Poly1305) of them, in all phases together, an association opens nothing more (RFC 9001,
// section 6.6 and appendix B). Anybody who knows an index can send them, so at half of that
// [Association.Worn] tells the owner to make another association.
//
// # Handshake
//
// A [Handshake] is TLS 1.3 as QUIC carries it (RFC 9001, section 4), or a shared key with three
// messages. It takes and gives bytes of a stream that its owner carries, in order. Its messages are
// framed by level and length; those after ServerHello are encrypted, so certificates cannot be read
// on the path. Both sides give parameters that the other one gets authenticated: the client all
// that its Connects say, its epoch and index among it, the server its epoch and index. So nobody
// can have changed them, and both know where to send. The keys of packets come from the TLS
// exporter (RFC 8446, section 7.5) or from the shared key, by HKDF (RFC 5869).
//
// There are no proofs beside it. A session opens by a sealed Open, which a sealed Accept answers,
// so who answers has the keys. Tickets come sealed too.
//
// A shared key tells members from strangers, and no member from another. An attacker who learns it
// later reads recorded packets: there is no forward secrecy. TLS has both.
//
// # Traps
//
// What such a design gets wrong easily, and where it is handled:
//
//   - A member on the path copies the address, epoch and session of another: they find nothing. The
//     opener of a datagram is its association (engine/endpoint.go), and a packet is a session's
//     only if that is the session's own, for the first record of a bundle and for each other
//     (session/end.go, engine/endpoint.go).
//   - A packet is sealed for an address that has a new owner: who seals it stands beside it from
//     the session on (packet/packet.go) and is never looked up by an address (engine/endpoint.go).
//   - An index is taken for another incarnation's: places rest before they are used again, begin
//     with a random generation, and a wrong one is refused before a key is touched. None is 0 or
//     looks like a packet without a session, whose loop is elsewhere (engine/association.go).
//   - An index is chosen in the wrong thread: only the loop gives places, a client's before its
//     handshake begins and a server's before it answers (engine/securehandshake.go).
//   - Steering reads what is encrypted: the loop stands in the clear where all packets have it
//     (wire/sealed.go). Sealed bytes are handed over unopened, and only the loop they name looks an
//     index up (engine/association.go).
//   - A burst is half opened when its packets end things: all of it is opened before any of it is
//     looked at, and then an association that has ended is found no more (engine/endpoint.go,
//     engine/endpoint.go).
//   - A packet in the clear reaches a session: it may reach a dial, by a nonce of 64 bits, or a
//     handshake that is under way, and never a session or an association
//     (engine/securehandshake.go). A Refuse in the clear ends a dial at most.
//   - A ticket in the clear reaches an open session: it comes sealed (engine/securehandshake.go).
//   - Plain mode is forgotten: it has associations without keys, and one predicate, address and
//     token, stands for what its peers can prove (session/end.go). Shared memory under TrustLocal
//     is such a peer, known by the kernel's word, and no sealed session takes its packets
//     (engine/endpoint.go).
//   - Further sessions of a client all go to one loop: each still asks in the clear for its place,
//     and then opens on the association with the loop that the Challenge names
//     (engine/securehandshake.go).
//   - An Open comes twice: it opens one session, by its nonce, and counts for the quota of the
//     identity (engine/securehandshake.go, engine/quota.go).
//   - A dial uses keys that prove another name: associations are known by address, epoch and the
//     name that the certificate had to say, and only those that this side opened
//     (engine/association.go).
//   - A ticket outlives its certificate: crypto/tls checks the dates of the chain again, and
//     Authorize sees the identity of the first handshake (engine/keys.go).
//   - Each dial is a handshake, or both sides disagree on who has keys: associations stay for ten
//     seconds after their last session, as long as there is room (engine/association.go), and a
//     client whose Opens are not answered takes its memory for a guess (engine/securehandshake.go).
//   - A restart is believed or not believed: a server that does not know an index says so and
//     quotes the datagram (NoKeys). A client that finds the quote among what it sent makes new keys
//     beside the old ones, once a second at most (engine/association.go). There is no reset token
//     to learn.
//   - A new epoch ends sessions of somebody else behind the same address: it must be of the same
//     identity, and then only makes this side ask; silence ends them (engine/association.go,
//     engine/liveness.go).
//   - The network's word ends sessions: it may make this side ask. Packets that it quotes count as
//     the peer's end only beside silence to fresh pings (engine/liveness.go). That is the one
//     exception to "nothing in the clear ends a session": docs/security.md.
//   - An attacker moves a session: a datagram that opens, is the newest and came from elsewhere
//     draws a sealed ping there, and only its sealed pong from there moves the association
//     (engine/liveness.go). Servers do not move.
//   - The path's MTU is changed in the clear: what was offered is authenticated, Open and Accept
//     are as large as the packets of the session, and the client says what has come
//     (session/dialer.go, engine/handshake.go).
//   - The limit of forgeries ends associations: the opener makes another one at half of it
//     (engine/liveness.go), by the keys of which sessions open from then on.
//   - Half-open handshakes fill memory: their number, streams and early datagrams have limits, in
//     all and for each quota (engine/securehandshake.go).
//   - Something reads the old layout: erpc decode, key logs, the flight recorder, captures and both
//     dissectors know a sealed datagram by its first byte (wire/sealed.go).
package security
