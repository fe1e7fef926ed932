package erpc

import (
	"errors"
	"slices"

	"github.com/userspace-rpc/erpc/transport"
)

// ServeGroup runs an event loop for each of several transports that have one address, as
// udp.ListenGroup opens them. It owns them, also when it fails. To clients they are one server,
// whose sessions are spread over the loops and stay there. It returns when all loops have ended:
// after Shutdown or Close with ErrClosed.
//
// A loop whose transport fails ends, and its sessions with it; it is logged, the others go on, and
// its clients' new sessions come to them. ServeGroup returns the errors of all such loops in the
// end. Other errors are those of Nexus.NewRpcs.
func (s *Server) ServeGroup(trs []transport.Transport) error {
	rpcs, err := s.nexus.NewRpcs(trs)
	if err != nil {
		return err
	}
	loops, err := s.begin(rpcs)
	if err != nil {
		return err
	}
	ends := make(chan error, len(loops))
	for _, r := range loops[1:] {
		go func() { ends <- s.loop(r) }()
	}
	ends <- s.loop(loops[0])
	var failed error
	for range loops {
		if err := <-ends; err != ErrClosed {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return failed
	}
	return ErrClosed
}

// begin makes endpoints the server's. It closes them if the server is closed.
func (s *Server) begin(rpcs []*Rpc) (loops []served, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rpcs {
		if s.closed {
			err = errors.Join(err, r.Close())
			continue
		}
		loops = append(loops, served{r, make(chan struct{})})
		s.loops.Add(1)
	}
	if s.closed {
		return nil, errors.Join(ErrClosed, err)
	}
	s.rpcs = append(s.rpcs, loops...)
	return loops, nil
}

// loop runs an endpoint's event loop until the server is closed or the transport fails.
func (s *Server) loop(r served) error {
	defer s.loops.Done()
	defer close(r.ended)
	err := s.run(r.Rpc)
	if err == nil {
		err = ErrClosed
	} else {
		r.cfg.Logger.Error("event loop failed", "loop", r.engine.loop(), "error", err)
	}
	if cerr := r.Close(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return err
}

// run runs an event loop until the server is closed and no handler is at work, or until it fails.
func (s *Server) run(r *Rpc) error {
	cut := false
	stop := func() bool {
		if s.ctx.Err() == nil {
			return false
		}
		if !cut && s.expired.Load() {
			cut = true
			r.cut()
		}
		return r.quiesce()
	}
	if !r.mayHandOff() {
		return r.Run(stop)
	}
	return r.runHandoff(stop, func() { s.loops.Add(1) }, s.loops.Done)
}

// Addrs returns the addresses that the server has, each once.
func (s *Server) Addrs() []transport.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []transport.Addr
	for _, r := range s.rpcs {
		if a := r.LocalAddr(); !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}
