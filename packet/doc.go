// Package packet holds what a session hands to a transport: a packet to send, and the
// address it goes to. Sessions know no transport and transports no session; this is
// what both know, so that a packet is described once, in place, and not copied from
// one form to another on its way out.
//
// # Map
//
//	owns       the form of a packet to send, and of an address
//	called by  sessions fill it in, transports read it
//	never      session and transport know each other
package packet
