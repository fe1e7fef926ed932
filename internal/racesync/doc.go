// Package racesync tells the race detector that what happened before a packet was sent happens
// before it is received, as package net does for what it sends: in a program with client and server
// it would report races that are none. Without the detector it does nothing.
//
// The edges lead from all that was sent to all that is received later, so they hide races of this
// library. Its own tests are built with the tag erpc_strict_race, which leaves them out.
//
// # Map
//
//	owns       edges between packets of one process
//	called by  event loops, around each burst
//	never      it does anything in a program that is built without -race
package racesync
