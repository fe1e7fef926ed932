package rdma

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/internal/accept"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kv/herd"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// Config describes a server.
type Config struct {
	// Device is the device's name; "": the one that has the listening address, or the first.
	Device string
	// Geometry has the sizes that clients are told. Default: 1 partition, a window of 16, slots of
	// 1 KiB.
	Geometry herd.Geometry
	// Clients is how many there can be at a time; default 64. Their answers lie in locked memory of
	// Clients times Geometry.Chunk bytes.
	Clients int
	// Store is each partition's configuration.
	Store mica.Config
	// Start is called in the goroutine of each loop before it runs.
	Start func(partition int)
	// Logger is told what the operator should know. Default: none.
	Logger *slog.Logger
}

func (c *Config) check() error {
	g := &c.Geometry
	if g.Partitions == 0 {
		g.Partitions = 1
	}
	if g.Window == 0 {
		g.Window = 16
	}
	if g.Slot == 0 {
		g.Slot = 1024
	}
	if c.Clients == 0 {
		c.Clients = 64
	}
	if c.Clients < 0 || c.Clients > 1<<16 || c.Clients*g.Chunk() > 1<<30 {
		return fmt.Errorf("%w: %d clients with %d bytes each", herd.ErrConfig, c.Clients, g.Chunk())
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return g.Check()
}

// Server serves partitions of package mica. It is made by Listen and ends with Close.
type Server struct {
	cfg     Config
	ln      net.Listener
	dev     *device
	answers *verbs.MR
	memory  []byte // of answers: a chunk for each number of a client
	qkey    uint32
	loops   []*loop
	all     sync.WaitGroup // goroutines of clients

	mu      sync.Mutex
	closed  bool
	numbers []bool // in use, by clients
	conns   map[net.Conn]bool
	handles map[verbs.GID]*verbs.AH // kept for ever: datagrams under way may refer to them
	refused uint64                  // clients
}

// maxHandles bounds the addresses from which clients come in the life of a server.
const maxHandles = 1024

// Listen opens the device, makes all partitions, and listens for clients at a TCP address. Errors:
// herd.ErrConfig, mica.ErrConfig, *verbs.MissingError, *verbs.Error, those of net.
func Listen(addr string, cfg Config) (s *Server, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s = newServer(ln, cfg)
	if err = s.open(); err != nil {
		return nil, errors.Join(err, s.free(), ln.Close())
	}
	return s, nil
}

// newServer makes a server without a device.
func newServer(ln net.Listener, cfg Config) *Server {
	return &Server{cfg: cfg, ln: accept.Patient(ln, cfg.Logger), qkey: random(31),
		numbers: make([]bool, cfg.Clients), conns: map[net.Conn]bool{},
		handles: map[verbs.GID]*verbs.AH{}}
}

// open makes all that hangs on the device.
func (s *Server) open() (err error) {
	if s.dev, err = openDevice(s.cfg.Device, hostOf(s.ln.Addr())); err != nil {
		return err
	}
	g := s.cfg.Geometry
	if mtu := int(s.dev.site.Attr.ActiveMTU); g.Slot > mtu {
		return fmt.Errorf("%w: slots of %d bytes, packets of %d", herd.ErrConfig, g.Slot, mtu)
	}
	size := s.cfg.Clients * g.Chunk()
	if s.memory, s.answers, err = s.dev.memory(s.dev.pd, size, verbs.LocalWrite); err != nil {
		return err
	}
	for i := range g.Partitions {
		l, err := newLoop(s, i)
		if err != nil {
			return err
		}
		s.loops = append(s.loops, l)
	}
	return nil
}

// free frees what open made.
func (s *Server) free() (err error) {
	for _, l := range s.loops {
		err = errors.Join(err, l.items.Close())
	}
	for _, h := range s.handles {
		err = errors.Join(err, h.Close())
	}
	if s.dev != nil {
		err = errors.Join(err, s.dev.close())
	}
	return err
}

// hostOf returns the IP address of a, if it has one.
func hostOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// Addr returns the address that clients dial.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Serve runs the loops and meets clients, until Close: then it returns ErrClosed.
func (s *Server) Serve() error {
	var loops sync.WaitGroup
	for i, l := range s.loops {
		loops.Go(func() {
			if s.cfg.Start != nil {
				s.cfg.Start(i)
			}
			l.run()
		})
	}
	s.cfg.Logger.Info("serving, empty", "partitions", len(s.loops), "device", s.dev.site.Device)
	err := s.meetAll()
	if errors.Is(err, net.ErrClosed) {
		err = ErrClosed
	}
	s.leaveAll()
	s.all.Wait()
	for _, l := range s.loops {
		l.stop.Store(true)
	}
	loops.Wait()
	if e := s.free(); e != nil {
		err = errors.Join(err, e)
	}
	return err
}

// meetAll meets clients until the listener ends.
func (s *Server) meetAll() error {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return err
		}
		if !s.enter(conn) {
			conn.Close()
			continue
		}
		s.all.Go(func() { s.meet(conn) })
	}
}

// Close has Serve end. It does not wait.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.ln.Close()
}

// enter notes a connection; there are at most as many as clients, and some that say nothing yet.
func (s *Server) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= 2*s.cfg.Clients+16 {
		return false
	}
	s.conns[conn] = true
	return true
}

// leaveAll ends all connections.
func (s *Server) leaveAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// helloTime is how long a client may take to say what it is.
const helloTime = 20 * time.Second

// meet serves one client: it is admitted, and forgotten when its connection ends.
func (s *Server) meet(conn net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		conn.Close()
	}()
	limit := func() { // without one, the peer's silence costs a place
		_ = conn.SetDeadline(time.Now().Add(helloTime)) // a closed connection fails below
	}
	limit()
	var h hello
	if err := hear(conn, &h); err != nil {
		s.refuse(conn, err)
		return
	}
	p, err := s.admit(&h)
	limit()
	if err != nil {
		s.refuse(conn, err)
		return
	}
	defer s.forget(p)
	if err := say(conn, &p.offer); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	s.cfg.Logger.Debug("client", "number", p.offer.Number, "design", h.Design)
	var one [1]byte
	_, _ = conn.Read(one[:]) // it returns when the client has gone, or says more than it may
}

func (s *Server) refuse(conn net.Conn, err error) {
	s.mu.Lock()
	s.refused++
	s.mu.Unlock()
	s.cfg.Logger.Warn("client refused", "from", conn.RemoteAddr(), "error", err)
	_ = say(conn, &offer{Error: err.Error()})
}

// Stats has the counters of a server.
type Stats struct {
	herd.Stats
	Clients int        // that there are
	Refused uint64     // clients
	Dropped uint64     // answers that found no room in a send queue
	Resets  uint64     // of queue pairs that had failed
	Items   mica.Stats // of all partitions
}

// Stats returns the counters of all partitions. Errors: ErrClosed.
func (s *Server) Stats() (st Stats, err error) {
	for _, l := range s.loops {
		err := l.do(func() {
			part, items := l.part.Stats(), l.items.Stats()
			st.Stats.Add(&part)
			st.Clients = l.part.Clients()
			st.Dropped += l.dropped
			st.Resets += l.resets
			st.Items.Add(&items)
		})
		if err != nil {
			return st, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Refused = s.refused
	return st, nil
}
