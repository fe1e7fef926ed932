package gopt

// Expensive marks a read that is likely to wait for memory: the statements behind it read what p
// points at. It does nothing. In a function with the comment //gopt:batch the command gopt puts a
// prefetch of all of *p, four cache lines at most, and a change to another lookup in its place.
func Expensive[T any](p *T) {}

// ExpensiveLines is Expensive for the first lines cache lines from p on. Of the function's
// variables lines may name those that all lookups share.
func ExpensiveLines[T any](p *T, lines int) {}
