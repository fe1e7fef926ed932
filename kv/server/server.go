package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/transport"
)

// ErrTransports means that there is not one transport for each partition.
var ErrTransports = errors.New("kv: one transport for each partition is needed")

// Config describes a server.
type Config struct {
	Partitions int         // at most message.MaxLayout; default 1
	Store      mica.Config // of each partition; FirstVersion is the server's
	OneByOne   bool        // no batches: for measurements
	// Shared gives each partition a lock, which its loop holds while it runs a burst of requests. So
	// Do runs its function in the goroutine of the caller, and waits for no loop.
	Shared bool
	// Clock returns the time in seconds, which does not go back. Default: the system's.
	Clock func() uint32
	// Tick is how often a partition is told the time, and begins to look for expired items. Default
	// 100 ms.
	Tick time.Duration
	// Rpc configures the event loops.
	Rpc erpc.Config
	// Advertise are the addresses that clients are told, one per partition. Default: those of the
	// transports.
	Advertise []string
	// Start is called in the goroutine of each loop before it runs, to pin it to a core, say.
	Start func(partition int)
	// Logger is told what the operator should know. Default: none.
	Logger *slog.Logger
}

// Server serves partitions. It is made by New and ends with Close.
type Server struct {
	cfg    Config
	parts  []*part
	closed atomic.Bool
	once   sync.Once
	ended  chan struct{} // no loop runs any more
	mu     sync.Mutex    // guards the start of Serve, and Close
	begun  bool
}

// New makes a server with all the memory of its partitions. Errors: mica.ErrConfig,
// *erpc.ConfigError, those of the system.
func New(cfg Config) (*Server, error) {
	if cfg.Partitions == 0 {
		cfg.Partitions = 1
	}
	if cfg.Partitions < 0 || cfg.Partitions > message.MaxLayout {
		return nil, fmt.Errorf("%w: %d partitions", mica.ErrConfig, cfg.Partitions)
	}
	if n := len(cfg.Advertise); n != 0 && n != cfg.Partitions {
		return nil, fmt.Errorf("%w: %d addresses for %d partitions", mica.ErrConfig, n, cfg.Partitions)
	}
	if cfg.Clock == nil {
		cfg.Clock = systemClock()
	}
	if cfg.Tick <= 0 {
		cfg.Tick = 100 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Store.FirstVersion = rand.Uint64() // so that no life of the server has versions of another
	s := &Server{cfg: cfg, ended: make(chan struct{})}
	for i := range cfg.Partitions {
		p, err := newPart(s, i)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.parts = append(s.parts, p)
	}
	return s, nil
}

// systemClock returns a clock of seconds since 1970, as the system had it at the start.
func systemClock() func() uint32 {
	start := time.Now()
	return func() uint32 { return seconds(start, time.Since(start)) }
}

// seconds returns the seconds since 1970 so long after a start, within a second or not.
func seconds(start time.Time, since time.Duration) uint32 { return uint32(start.Add(since).Unix()) }

// Partitions returns how many partitions there are.
func (s *Server) Partitions() int { return len(s.parts) }

// Serve runs an event loop for each partition, on the transport of its number. It owns the
// transports, also when it fails. It returns erpc.ErrClosed after Close, or the first error of a
// loop, when all have ended. It is called once.
func (s *Server) Serve(trs []transport.Transport) error {
	err := s.begin(trs)
	if err != nil {
		return err
	}
	errs := make([]error, len(s.parts))
	var all sync.WaitGroup
	for i, p := range s.parts {
		all.Go(func() {
			if s.cfg.Start != nil {
				s.cfg.Start(i)
			}
			if errs[i] = p.run(); errs[i] != nil {
				s.stop()
			}
		})
	}
	s.cfg.Logger.Info("serving, empty", "partitions", len(s.parts), "mode", s.cfg.Store.Mode.String())
	all.Wait()
	err = errors.Join(errs...)
	for _, p := range s.parts {
		err = errors.Join(err, p.rpc.Close(), p.nexus.Close())
	}
	close(s.ended)
	if err == nil {
		err = erpc.ErrClosed
	}
	return err
}

// begin makes the endpoints.
func (s *Server) begin(trs []transport.Transport) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := error(nil)
	switch {
	case len(trs) != len(s.parts):
		err = fmt.Errorf("%w: %d for %d", ErrTransports, len(trs), len(s.parts))
	case s.begun || s.closed.Load():
		err = erpc.ErrClosed
	}
	if err != nil {
		return errors.Join(err, closeUnused(trs))
	}
	layout := message.Layout{Mode: s.cfg.Store.Mode, Addrs: s.cfg.Advertise}
	if layout.Addrs == nil {
		for _, tr := range trs {
			layout.Addrs = append(layout.Addrs, tr.LocalAddr().String())
		}
	}
	for i, p := range s.parts {
		layout.Partition = i
		p.layout = layout.Append(nil)
		rpc, e := p.nexus.NewRpc(trs[i])
		if e == nil {
			p.rpc = rpc
			e = p.startTicks()
		}
		err = errors.Join(err, e)
	}
	if err != nil {
		for _, p := range s.parts {
			if p.rpc != nil {
				err = errors.Join(err, p.rpc.Close())
			}
		}
		return err
	}
	s.begun = true
	return nil
}

// closeUnused closes the transports that no endpoint owns: a Nexus that is closed owns what it is
// given.
func closeUnused(trs []transport.Transport) error {
	n, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		return err
	}
	err = n.Close()
	for _, tr := range trs {
		if _, e := n.NewRpc(tr); e != erpc.ErrClosed {
			err = errors.Join(err, e)
		}
	}
	return err
}

func (s *Server) stop() {
	s.closed.Store(true)
	for _, p := range s.parts {
		if p.rpc != nil {
			p.rpc.Wake()
		}
	}
}

// Close ends the server, waits for its loops, and gives the memory back.
func (s *Server) Close() (err error) {
	s.once.Do(func() {
		s.mu.Lock()
		begun := s.begun
		s.stop()
		s.mu.Unlock()
		if begun {
			<-s.ended
		}
		for _, p := range s.parts {
			if !begun {
				err = errors.Join(err, p.nexus.Close())
			}
			p.lock()
			p.gone = true
			err = errors.Join(err, p.store.Close())
			p.unlock()
		}
	})
	return err
}

// Do runs fn in the thread that owns a partition, and waits until it has returned. With Shared fn
// runs in the goroutine of the caller, under the partition's lock. fn must not block. The error is
// erpc.ErrClosed: then fn has not run, nor will it.
func (s *Server) Do(partition int, fn func(p *mica.Partition)) error {
	p := s.parts[partition]
	if s.cfg.Shared {
		return p.locked(fn)
	}
	s.mu.Lock()
	begun := s.begun
	s.mu.Unlock()
	if !begun {
		return erpc.ErrClosed
	}
	done := make(chan struct{})
	if err := p.rpc.Post(func(*erpc.Rpc) { fn(p.store); close(done) }); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-s.ended:
	}
	select { // it may have been the last thing that the loop did
	case <-done:
		return nil
	default:
		return erpc.ErrClosed
	}
}

// Stats returns the counters of each partition. Errors: that of Do, and the context's.
func (s *Server) Stats(ctx context.Context) (list []mica.Stats, err error) {
	for i := range s.parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var st mica.Stats
		if err := s.Do(i, func(*mica.Partition) { st = s.parts[i].store.Stats() }); err != nil {
			return nil, err
		}
		list = append(list, st)
	}
	return list, nil
}
