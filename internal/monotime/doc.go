// Package monotime holds the type of a point in time, and is the only reader of the
// clock. Everything else is given the time: loops read it once per round and pass it
// on, tests and the simulator make it up.
//
// # Map
//
//	owns       the type Time and the reading of the clock
//	called by  loops, once per pass
//	never      anything else reads a clock
package monotime
