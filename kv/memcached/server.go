package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/accept"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// ErrClosed is returned by Serve after Close.
var ErrClosed = errors.New("memcached: closed")

// Config describes a server.
type Config struct {
	Store        Store
	MaxConns     int           // default 1024
	WriteTimeout time.Duration // for answers to a slow client; default 10 s
	IdleTimeout  time.Duration // between commands, and within one; default: none
	TLS          *tls.Config   // connections are encrypted; nil: they are not
	// Version is the answer to the command version. It begins with three numbers, which clients of
	// libmemcached read. Default "1.6.0-erpc-kv".
	Version string
	Logger  *slog.Logger // is told what the operator should know; default: none
}

// Server serves connections. It is made by New.
type Server struct {
	cfg   Config
	reads Reading // the store, if lookups can do without its owner; else nil
	start time.Time
	mu    sync.Mutex // guards the following
	lns   map[net.Listener]bool
	conns map[net.Conn]bool
	flush *time.Timer // a flush_all that is due later
	ended bool
	all   sync.WaitGroup
	total atomic.Uint64 // connections
	outs  sync.Pool     // of *[]byte: answers that are being made
}

// New returns a Server. Its Store stays the caller's.
func New(cfg Config) *Server {
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = 1024
	}
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = 10 * time.Second
	}
	if cfg.Version == "" {
		cfg.Version = "1.6.0-erpc-kv"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, start: time.Now(), lns: map[net.Listener]bool{},
		conns: map[net.Conn]bool{}}
	if r, ok := cfg.Store.(Reading); ok && r.CanRead() {
		s.reads = r
	}
	return s
}

// Serve takes connections of a listener, which it owns, until Close. When the system has no room
// for one, as with too many open files, it logs that and tries again. Errors: ErrClosed, that of a
// listener that has ended.
func (s *Server) Serve(ln net.Listener) error {
	ln = accept.Patient(ln, s.cfg.Logger)
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return errors.Join(ErrClosed, ln.Close())
	}
	s.lns[ln] = true
	s.mu.Unlock()
	for {
		conn, err := ln.Accept()
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if delete(s.lns, ln); s.ended {
				return ErrClosed
			}
			return errors.Join(err, ln.Close())
		}
		s.take(conn)
	}
}

// take starts to serve a connection.
func (s *Server) take(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.conns) >= s.cfg.MaxConns {
		if s.cfg.TLS == nil { // a handshake takes too long here
			sayPlain(conn, "ERROR Too many open connections")
		}
		_ = conn.Close()
		return
	}
	s.conns[conn] = true
	s.total.Add(1)
	s.all.Go(func() {
		if nc := s.secure(conn); nc != nil {
			newConn(s, nc).serve()
		}
		_ = conn.Close() // the client is gone, or was told
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	})
}

// Close ends all connections and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	s.ended = true
	var err error
	for ln := range s.lns {
		err = errors.Join(err, ln.Close())
	}
	for c := range s.conns {
		_ = c.Close() // the goroutine closes it too
	}
	if s.flush != nil {
		s.flush.Stop()
	}
	s.mu.Unlock()
	s.all.Wait()
	return err
}

// clear forgets all items.
func (s *Server) clear() {
	for i := range s.cfg.Store.Partitions() {
		_ = s.cfg.Store.Do(i, (*mica.Partition).Clear) // a store that is closed has none
	}
}

// clearAfter forgets all items that are there in so many seconds. The last call counts.
func (s *Server) clearAfter(seconds int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flush != nil {
		s.flush.Stop()
	}
	if !s.ended {
		s.flush = time.AfterFunc(time.Duration(seconds)*time.Second, s.clear)
	}
}

// sum adds the counters of all partitions.
func (s *Server) sum() (t mica.Stats, err error) {
	all, err := s.counters()
	for _, st := range all {
		t.Items += st.Items
		t.Bytes += st.Bytes
		t.Memory += st.Memory
		t.Hits += st.Hits
		t.Misses += st.Misses
		t.Puts += st.Puts
		t.Evictions += st.Evictions + st.IndexEvictions
		t.Expired += st.Expired
	}
	return t, err
}

// counters returns those of each partition.
func (s *Server) counters() (list []mica.Stats, err error) {
	if c, ok := s.cfg.Store.(counted); ok {
		return c.Stats(context.Background())
	}
	for i := range s.cfg.Store.Partitions() {
		err := s.cfg.Store.Do(i, func(p *mica.Partition) { list = append(list, p.Stats()) })
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
