// Package monotime is the clock of the event loops, for the other modules of this repository. Its
// Time is the type that packages erpc, cc and sim call Time.
//
// # Map
//
//	owns       nothing: it names what internal/monotime has
//	called by  raft-example/ and labs/
//	never      a package of the library imports it
package monotime
