// Package cubic is the congestion window of CUBIC (RFC 9438), which fills a queue until it
// overflows, as TCP does. Sessions that are to share links with TCP follow it (package session),
// and the simulator's TCP flows do (package transport/sim/bulk).
//
// # Map
//
//	owns       the window of one flow, from answers and losses
//	called by  sessions that follow losses; flows of the simulator
//	never      it reads a clock, does I/O, or allocates
//
// # The window
//
// A loss leaves seven tenths of it. From there it grows as
//
//	W(t) = C (t - K)^3 + W_max,  K = cbrt((W_max - cwnd)/C),  C = 0.4 packets/s^3
//
// t after the loss, or as Reno's would if that is more (section 4.3). If it has fallen since the
// loss before, it gives way (fast convergence, section 4.7).
package cubic
