package grpcerpc

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
)

// RefuseCalls has the server refuse new calls, as when it stops, before its clients know that.
func (s *Server) RefuseCalls(refuse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = refuse
	for _, c := range s.conns {
		c.mu.Lock()
		if c.shut = refuse; refuse {
			c.calls++ // or it would end with the last call
		} else {
			c.calls--
		}
		c.mu.Unlock()
	}
}

// Forget has the server know none of its connections any more, of which it tells nobody.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.conns)
}

// HelloWithin bounds how long servers take to answer Hello. It is called before the first call.
func (cc *ClientConn) HelloWithin(d time.Duration) { cc.patience = d }

// LosePipes has the pipes of all connections fail in the loop, after what do has it do later.
func (cc *ClientConn) LosePipes(do func()) {
	held := make(chan struct{})
	_ = cc.loop.Post(func(*erpc.Rpc) {
		<-held
		cc.mu.Lock()
		var pipes []*pipe
		for l := range cc.links {
			pipes = append(pipes, l.pipe)
		}
		cc.mu.Unlock()
		for _, p := range pipes {
			p.fail(status.Error(codes.Unavailable, "lost on purpose"))
		}
	})
	do()
	close(held)
}
