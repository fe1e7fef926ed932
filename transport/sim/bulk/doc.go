// Package bulk is a bulk TCP flow for the simulated network: what other flows meet on links that
// they share with TCP. Its congestion control is CUBIC (RFC 9438, package cc/cubic).
//
// A [Flow] sends as many packets as its window allows, driven by the answers to those before (ACK
// clocking). Every packet is answered. Links keep the order of packets, so a packet is lost if the
// third after it, or a later one, was answered (as RFC 6675 has it). What is lost goes again in the
// next packet, and as the content plays no part that is one more packet. A window falls once for
// all losses of what was under way at that time. Slow start ends at the first loss: HyStart is not
// there. The timeout is that of RFC 6298, with the least of Linux, 200 ms.
//
// # Map
//
//	owns       the window of one flow, and its two endpoints
//	called by  experiments and tests in virtual time
//	never      it has content, delayed answers, or a receiver's window
package bulk
