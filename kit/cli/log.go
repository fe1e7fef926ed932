package cli

import (
	"io"
	"sync"
)

// lines is the standard error of one run of a command: its goroutines and the handlers of its logs
// write there side by side. What is written after the run is dropped.
type lines struct {
	mu sync.Mutex
	to io.Writer // nil: the run has ended
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		return len(b), nil
	}
	return l.to.Write(b)
}

// end lets the owner of the stream read what it has: nothing is written any more.
func (l *lines) end() {
	l.mu.Lock()
	l.to = nil
	l.mu.Unlock()
}
