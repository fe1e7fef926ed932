package msgbuf

import (
	"errors"
	"fmt"
)

// Errors to compare with errors.Is.
var (
	// ErrTooLarge means that a size is negative or larger than the buffer or pool takes.
	ErrTooLarge = errors.New("msgbuf: message too large")
	// ErrNoMemory means that the pool's Limit is reached or the system gives no more.
	ErrNoMemory = errors.New("msgbuf: out of buffer memory")
	// ErrClosed means that the pool is closed.
	ErrClosed = errors.New("msgbuf: pool closed")
	// ErrInUse means that the library owns the buffer.
	ErrInUse = errors.New("msgbuf: buffer is in use by the library")
	// ErrFreed means that the buffer was freed.
	ErrFreed = errors.New("msgbuf: buffer was freed")
	// ErrLeak means that a closed pool still had buffers in use; see LeakError.
	ErrLeak = errors.New("msgbuf: buffers in use at close")
)

// ConfigError names the field of a Config that cannot be used.
type ConfigError struct {
	Field  string
	Reason string
}

// Error returns field and reason.
func (e *ConfigError) Error() string {
	return "msgbuf: Config." + e.Field + ": " + e.Reason
}

// LeakError matches ErrLeak and says how many buffers were in use.
type LeakError struct{ Count int }

// Error returns the count.
func (e *LeakError) Error() string { return fmt.Sprintf("%v: %d", ErrLeak, e.Count) }

// Is makes errors.Is(err, ErrLeak) true.
func (e *LeakError) Is(target error) bool { return target == ErrLeak }
