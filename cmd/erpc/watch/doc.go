// Package watch makes what "erpc top" shows of a running program: a [Meter] turns snapshots of
// event loops, one after another, into [Frame] values with rates and quantiles of the time between.
// A frame is drawn as text of any width ([Frame.Text]), printed as lines for pipes ([Frame.Lines]),
// or served with a page of its own ([Page]) whose files are embedded and which asks no other host.
//
// It does no I/O but for the page's HTTP, and reads no clock: a snapshot says when it was taken.
//
// # Map
//
//	owns       the frames of erpc top, and its page
//	called by  erpc top
//	never      a loop waits for a viewer; a terminal obeys what a program calls itself; who was not
//	           given the page's address sees it
package watch
