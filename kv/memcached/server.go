package memcached

import (
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
	MaxItemSize  int           // bytes of the largest value; default 1 MiB, which is the most
	WriteTimeout time.Duration // for 64 KiB of answers; default 10 s
	ReadTimeout  time.Duration // for a command, or 16 KiB of its value; default 30 s
	IdleTimeout  time.Duration // between commands; default: none
	TLS          *tls.Config   // connections are encrypted; nil: they are not
	// Auth reports whether a user has that password. With it a client sends both in the value of its
	// first set, "USER PASSWORD". Default: nobody is asked.
	Auth func(user, password string) bool
	// Buffers is the memory in bytes that all connections share for commands and answers of more
	// than 4 KiB: a quarter for lines, and three eighths each for values and for answers. Default 16
	// MiB; 3 MiB at least.
	Buffers int
	// Version is the answer to the command version. It begins with three numbers, which clients of
	// libmemcached read. Default "1.6.0-erpc-kv".
	Version string
	Logger  *slog.Logger // is told what the operator should know; default: none
}

// Server serves connections. It is made by New.
type Server struct {
	cfg   Config
	parts int

	start   time.Time
	flushes []flush
	mu      sync.Mutex // guards the following
	lns     map[net.Listener]bool
	conns   map[net.Conn]bool
	flush   *time.Timer // a flush_all that is due later
	ended   bool
	all     sync.WaitGroup

	total, rejected        atomic.Uint64 // connections
	totals                 totals
	works                  sync.Pool // of *work
	lines, values, answers account
}

// New returns a Server. Its Store stays the caller's.
func New(cfg Config) *Server {
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = 1024
	}
	if cfg.MaxItemSize <= 0 || cfg.MaxItemSize > mica.MaxValue {
		cfg.MaxItemSize = mica.MaxValue
	}
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = 10 * time.Second
	}
	if cfg.ReadTimeout <= 0 {
		cfg.ReadTimeout = 30 * time.Second
	}
	if cfg.Buffers <= 0 {
		cfg.Buffers = 16 << 20
	}
	cfg.Buffers = max(cfg.Buffers, leastBuffers)
	if cfg.Version == "" {
		cfg.Version = defaultVersion
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, parts: cfg.Store.Partitions(), start: time.Now(),
		lns: map[net.Listener]bool{}, conns: map[net.Conn]bool{}}
	s.flushes = make([]flush, s.parts)
	s.lines.patience, s.values.patience, s.answers.patience = patience, patience, patience
	s.lines.limit = cfg.Buffers / 4
	s.values.limit, s.answers.limit = cfg.Buffers*3/8, cfg.Buffers*3/8
	return s
}

// defaultVersion begins as memcached's do, for clients that look.
const defaultVersion = "1.6.0-erpc-kv"

// leastBuffers has room for a largest value and a largest answer.
const leastBuffers = 3 << 20

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
		s.rejected.Add(1)
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
	for _, a := range []*account{&s.lines, &s.values, &s.answers} {
		a.close()
	}
	s.all.Wait()
	return err
}

// sum adds the counters of all partitions.
func (s *Server) sum() (t mica.Stats, err error) {
	for i := range s.parts {
		err := s.cfg.Store.Do(i, func(p *mica.Partition) {
			st := p.Stats()
			t.Add(&st)
		})
		if err != nil {
			return t, err
		}
	}
	t.Evictions += t.IndexEvictions
	return t, nil
}

func (s *Server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
