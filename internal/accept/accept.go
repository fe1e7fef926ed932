package accept

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// The time between two attempts doubles from the first to the longest.
const (
	firstWait   = 5 * time.Millisecond
	longestWait = time.Second
)

// listener is a listener whose Accept returns no error that passes.
type listener struct {
	net.Listener
	log   *slog.Logger
	once  sync.Once
	ended chan struct{}
}

// Patient returns a listener that owns ln. Its Accept waits and tries again after errors that pass,
// and logs them, until Close.
func Patient(ln net.Listener, log *slog.Logger) net.Listener {
	return &listener{Listener: ln, log: log, ended: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		c, err := l.Listener.Accept()
		if err == nil || !passes(err) {
			return c, err
		}
		l.log.Warn("connections have to wait", "address", l.Addr(), "error", err, "for", wait)
		select {
		case <-time.After(wait):
		case <-l.ended:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// passes reports whether Accept may succeed after an error: the system's are about one connection
// or about resources, unless they say that there is no listener.
func passes(err error) bool {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e != syscall.EBADF && e != syscall.EINVAL && e != syscall.ENOTSOCK &&
			e != syscall.EOPNOTSUPP
	}
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}
