package grpcerpc

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
)

// drainWithin is how long a client has to learn that it shall go elsewhere, as in grpc-go. What it
// calls until then is served.
const drainWithin = 5 * time.Second

// begin counts a call in, k if it is of one request, nil for a stream. It reports false if the
// connection takes none.
func (c *serverConn) begin(k *unaryCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut || c.over {
		return false
	}
	c.calls++
	if k == nil {
		c.server.handlers.Add(1)
		return true
	}
	if k.next = c.unary; k.next != nil {
		k.next.prev = k
	}
	c.unary = k
	return true
}

// end counts a call out.
func (c *serverConn) end(k *unaryCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k != nil {
		c.unlink(k)
	}
	if c.calls--; c.calls > 0 {
		return
	}
	if c.server.opts.keepalive.MaxConnectionIdle > 0 {
		c.since = c.server.opts.clock.now()
	}
	if c.shut {
		go c.close() // a stream's lock may be held
	}
}

// unlink takes a call out of the list. The lock is held.
func (c *serverConn) unlink(k *unaryCall) {
	if k.prev == nil {
		c.unary = k.next
	} else {
		k.prev.next = k.next
	}
	if k.next != nil {
		k.next.prev = k.prev
	}
	k.prev, k.next = nil, nil
}

// drain tells the client to go elsewhere: gRPC's GOAWAY. It closes the connection when its last
// call has ended. Calls that it has sent before it knows are served. One that does not go is
// refused calls after drainWithin, and the connection ends with the last one.
func (c *serverConn) drain() {
	c.mu.Lock()
	if c.leaving {
		c.mu.Unlock()
		return
	}
	if !c.over {
		c.timers.drained = c.server.opts.clock.after(drainWithin, c.expel)
	}
	c.mu.Unlock()
	c.leave()
}

// expel refuses calls from now on, and ends the connection if there are none.
func (c *serverConn) expel() {
	c.mu.Lock()
	c.shut = true
	none := c.calls == 0
	c.mu.Unlock()
	if none {
		c.close()
	}
}

// leave answers Leave.
func (c *serverConn) leave() {
	c.mu.Lock()
	waits := c.waits
	c.leaving, c.waits = true, false
	c.mu.Unlock()
	if waits {
		_ = c.wait.RespondBytes(nil) // in vain if the session has ended
	}
}

// close ends the connection, its streams, and its calls of one request.
func (c *serverConn) close() {
	c.leave()
	s := c.server
	s.mu.Lock()
	c.expiry.Stop() // it was set under the lock
	if s.conns[c.token] == c {
		delete(s.conns, c.token)
		if s.peers[c.from]--; s.peers[c.from] == 0 {
			delete(s.peers, c.from)
		}
		s.gone.Broadcast()
	}
	s.mu.Unlock()
	c.mu.Lock()
	first := !c.over
	if first {
		c.over = true
		close(c.ended)
		c.timers.stop()
	}
	streams := make([]*serverStream, 0, len(c.streams))
	for _, st := range c.streams {
		streams = append(streams, st)
	}
	var calls []*unaryCall
	for k := c.unary; k != nil; k = k.next {
		calls = append(calls, k)
	}
	c.mu.Unlock()
	for _, st := range streams {
		st.abort()
	}
	for _, k := range calls { // the way into the loop may be full: no lock is held
		k.abort()
	}
	if first {
		c.watch.end()
	}
	_ = c.pipe.rpc.Post(func(*erpc.Rpc) { c.pipe.shut(errEnded) }) // in vain if the loop has ended
}

// errEnded ends the calls of a connection that has ended.
var errEnded = status.New(codes.Unavailable, "grpcerpc: the connection has ended")
