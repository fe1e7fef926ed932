// Package security protects what two endpoints send each other: the handshake that makes keys, and
// the record layer that seals packets with them. It does no I/O, reads no clock and starts no
// goroutine (crypto/tls starts one per handshake, which ends with it).
//
// # Map
//
//	owns       keys, nonces and windows of one association
//	called by  package erpc, by its shield
//	never      a nonce is used twice; a packet is believed that was not opened
//
// # Association
//
// An [Association] has the keys of one pair of endpoints, an endpoint being one event loop. All
// sessions between the two share it, whichever side opened them. One thread owns it, so that its
// counter needs no lock.
//
// A packet of n bytes becomes one of n+[Overhead] bytes:
//
//	0   11 B  as in the packet: version, type, request type, hold time, message size, session
//	11        the key phase is the highest bit of this byte
//	12  u32   the low half of the packet's counter
//	16        the packet from its byte 12 on, encrypted; behind it a tag of 16 bytes
//
// The first 16 bytes are authenticated. The packet's own token field is among what is encrypted, so
// a late packet of an earlier session under the same number is still told from one of today's.
//
// # Nonces
//
// Header fields repeat: a retransmission has the same request, packet and try, and under GCM a
// nonce that repeats with other bytes gives the key away. So each direction has a counter of 64
// bits, which counts packets that are sealed and never goes back. The nonce is a secret of 12 bytes
// XOR the counter (RFC 9001, section 5.3). A packet that is sent again is sealed again, under
// another number. The receiver finds the upper half of a counter as in RFC 9000, appendix A.3.
//
// Counters seen are in a window of [WindowSize] packets. Packets that are older, or come twice, are
// dropped.
//
// # Key phases
//
// Both directions change keys together (RFC 9001, section 6). The side that opened the association
// begins: it seals in the next phase, and the other side follows when it has opened such a packet.
// It begins again only after that, so neither side is ever two phases ahead. One update is due
// every 2^28 packets or 2^38 bytes, or when the owner asks. A peer that does not follow gets no
// packets after twice as many, which is 2^35 blocks: the limit of AES-128-GCM for one key (RFC
// 9001, appendix B.1.1).
// The keys of the phase before open late packets, as far as the window reaches.
//
// Packets that are not opened are counted, because each is a guess. At 2^52 (AES-128-GCM) or 2^36
// (ChaCha20-Poly1305) of them, in all phases together, an association opens nothing more (RFC 9001,
// section 6.6 and appendix B).
//
// # Handshake
//
// A [Handshake] is TLS 1.3 as QUIC carries it (RFC 9001, section 4), or a shared key with three
// messages. It takes and gives bytes of a stream that its owner carries, in order. Its messages are
// framed by level and length; those after ServerHello are encrypted, so certificates cannot be read
// on the path. Both sides give parameters that the other one gets authenticated: what the opening
// said, so that nobody can have changed it. The keys of packets come from the TLS exporter
// (RFC 8446, section 7.5) or from the shared key, by HKDF (RFC 5869).
//
// A shared key tells members from strangers, and no member from another. An attacker who learns it
// later reads recorded packets: there is no forward secrecy. TLS has both.
package security
