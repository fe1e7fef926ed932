// Command erpc-hostile sends a server what a hostile peer might, at a given rate, to measure what
// that costs the server's other clients. See labs/scripts/bench-hostile.
//
//	erpc-hostile -target 127.0.0.1:31850 -attack repeat -rate 160000 -duration 2s
//
// The attacks:
//
//	junk       datagrams that mean nothing: what any program with a UDP socket pays
//	repeat     one client that repeats a request whose response it has, with another try each time
//	same       the same without another try
//	repeat-bundle, same-bundle  the same two, 25 packets to a datagram, at the same rate of packets
//	connect    Connects without a cookie, each from another address of 127.0.0.0/8
//	cookie     Connects as large as a packet, with cookies that are wrong, from as many addresses
//	shake, shake-cookie  the same two, as secure clients send them
//	forged     packets of a session that there is, by somebody without its keys
//	version    Connects of another version of the protocol
//	parts      handshakes with a server that has a certificate, whose senders prove their address and
//	           then send 16 KiB of a message that never ends; -rate counts handshakes here
//	hellos     the same by whole ClientHellos, behind which nothing comes; both from -addresses
//	hog-sessions  one address that opens as many sessions as it can, and keeps them
//	hog-handlers  600 sessions of one address whose handlers block, in all slots
//	hog-memory    200 sessions of one address: first packets of requests that claim 8 MiB, and
//	              requests for responses of 1 MiB, of which it takes one packet
//
// The hogs are for the server that -serve runs, beside the clients that -victims runs. These
// have ten addresses, and their calls have handlers in the background.
//
// With -dials it does nothing of that but dials the server so many times, a few at a time and each
// from a new socket, and says how many had a session within a second. Run beside an attack.
//
// With -tls-alone it times crypto/tls's handshakes by the same certificates, for
// labs/scripts/bench-tls.
//
// With -tls-bare, -serve and -dials make handshakes by crypto/tls and a UDP socket without this
// library: the least that any server does. With -tls-keys too they also encrypt the handshake and
// make keys of packets, as any session needs. With -tls-session they do that by requests of a plain
// session of this library, which opens before and closes after it: the least that any server does
// which has sessions too. With -tls-workers the steps of a handshake run beside the loop.
//
// It sends to addresses of this machine only.
//
// # Map
//
//	owns       attackers and the honest clients beside them
//	called by  make bench-hostile
//	never      it attacks anything but the server that it is given
package main
