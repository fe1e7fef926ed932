package debug

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// Limits of a Socket.
const (
	maxPeers       = 16
	defaultTimeout = time.Second
	slowPeer       = 30 * time.Second // to send a request, or to take an answer
	maxHeader      = 8 << 10
)

// ErrUnsupported means that this system does not say who the peer of a socket is.
var ErrUnsupported = errors.New("debug: no debug socket on this system: it does not name the peer")

// Config configures a Socket. The zero value works.
type Config struct {
	// Path is the socket's file. Default: the process's number in Dir.
	Path string
	// Timeout is how long a request waits for loops. Default: a second.
	Timeout time.Duration
	// Record makes the loops that there are keep so many datagrams, from when they run; 0: not until
	// a peer asks.
	Record int
	// TypeNames name request types for people.
	TypeNames map[uint8]string
	// Dumps says when records are written to files without being asked for.
	Dumps Dumps
}

// Socket is a debug socket that is open.
type Socket struct {
	cfg     Config
	watched []erpc.Watched
	http    *http.Server
	lis     net.Listener
	served  chan struct{} // closed when the server has ended
	dumper  *dumper       // or nil
	begun   sync.WaitGroup
	cancel  context.CancelFunc
}

// Listen opens a debug socket for Servers, Loops, Clients and Rpcs. Close it at the end. Errors:
// ErrUnsupported, those of the file system and of the socket.
func Listen(cfg Config, watched ...erpc.Watched) (*Socket, error) {
	return listen(cfg, os.Geteuid(), watched...)
}

// listen is Listen for peers of a given user.
func listen(cfg Config, user int, watched ...erpc.Watched) (*Socket, error) {
	if !supported {
		return nil, ErrUnsupported
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Path == "" {
		dir, err := ownDir()
		if err != nil {
			return nil, err
		}
		cfg.Path = filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock")
	}
	if err := removeStale(cfg.Path); err != nil {
		return nil, err
	}
	own := net.ListenConfig{Control: ownMode}
	lis, err := own.Listen(context.Background(), "unix", cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("debug: %w", err)
	}
	s := &Socket{cfg: cfg, watched: watched, lis: lis, served: make(chan struct{})}
	s.http = &http.Server{
		Handler: s.routes(), ReadTimeout: slowPeer, WriteTimeout: slowPeer, IdleTimeout: slowPeer,
		MaxHeaderBytes: maxHeader,
	}
	if s.dumper, err = startDumper(s, cfg.Dumps); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	if cfg.Record > 0 { // its loops may begin to run later
		s.begun.Go(func() {
			_ = s.each(func(r *erpc.Rpc) error { return r.Record(ctx, cfg.Record) })
		})
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(&gate{lis, user, make(chan struct{}, maxPeers)}) // ends with Close
	}()
	return s, nil
}

// Path returns the socket's file.
func (s *Socket) Path() string { return s.cfg.Path }

// Close closes the socket and cuts its peers off. Loops that record go on.
func (s *Socket) Close() error {
	err := s.http.Close()
	<-s.served
	s.cancel()
	s.begun.Wait()
	if s.dumper != nil {
		s.dumper.end()
	}
	return err
}

// each calls fn for each loop, all at the same time.
func (s *Socket) each(fn func(*erpc.Rpc) error) error {
	rpcs := rpcsOf(s.watched)
	errs := make(chan error, len(rpcs))
	for _, r := range rpcs {
		go func() { errs <- fn(r) }()
	}
	var all []error
	for range rpcs {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// gate lets in peers of one user, and a bounded number of them.
type gate struct {
	net.Listener
	user  int
	peers chan struct{}
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, err := peerOf(c.(*net.UnixConn)); err != nil || uid != g.user {
			_ = c.Close()
			continue
		}
		select {
		case g.peers <- struct{}{}:
			return &guest{Conn: c, left: g.peers}, nil
		default:
			_ = c.Close()
		}
	}
}
