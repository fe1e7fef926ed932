package gid

// Current returns an identity of the calling goroutine: the address of the
// runtime's record of it, read from a register or from thread-local storage and
// never followed. It differs between any two goroutines that are alive at the same
// time and stays the same until the goroutine ends; after that a new goroutine may
// get it. It is never 0. If Exact is false it is always 1.
func Current() uintptr { return current() }
