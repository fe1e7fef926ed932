package memcached

import (
	"crypto/tls"
	"math"
	"net"
	"sync/atomic"
	"time"
)

// holder is a connection as the accounts know it: when its client last did something for the
// buffers that it has. A nil one is never idle.
type holder struct {
	nc    net.Conn
	moved atomic.Int64 // in nanoseconds since 1970
	ended atomic.Bool
}

// init names the connection; an end of one with TLS must not wait to tell.
func (h *holder) init(nc net.Conn) {
	if c, ok := nc.(*tls.Conn); ok {
		nc = c.NetConn()
	}
	h.nc = nc
}

// move notes that the client has sent or taken something.
func (h *holder) move() {
	if h != nil {
		h.moved.Store(time.Now().UnixNano())
	}
}

// wait notes that the server, and not the client, is to do something.
func (h *holder) wait() {
	if h != nil {
		h.moved.Store(math.MaxInt64)
	}
}

// end ends the connection, which gives its buffers back.
func (h *holder) end() {
	h.ended.Store(true)
	_ = h.nc.Close() // its goroutine closes it too
}
