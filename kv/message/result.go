package message

// Result is the end of an operation in the thread of an event loop. The Value is valid until the
// Done returns.
type Result struct {
	Value
	Number uint64 // of Increment
	Tag    uint64 // as the operation was given it
	Err    error  // that of the partition, or of the way to it
}

// Done is called in the thread of the loop when an operation ends. It may start others.
type Done func(Result)
