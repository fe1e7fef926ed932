package grpcerpc

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
)

const (
	maxConns   = 1 << 16          // of one server
	maxOfPeer  = 1 << 10          // of one address of a client: of one loop, which ClientConns share
	maxNames   = 16 << 10         // bytes of user agent, authority and compressors
	lifeWithin = 10 * time.Second // of Hello; else the connection is forgotten
)

// Addr is the address of a peer, in a peer.Peer. Its network is "udp" or "shm".
type Addr struct {
	netip.AddrPort
	Shared bool // over shared memory
}

// Network implements net.Addr.
func (a Addr) Network() string {
	if a.Shared {
		return "shm"
	}
	return "udp"
}

func addrOf(a transport.Addr) Addr { return Addr{a.AddrPort(), shm.IsAddr(&a)} }

// security is the AuthInfo of connections that are not encrypted.
var security = func() *peer.Peer {
	_, info, _ := insecure.NewCredentials().ClientHandshake(context.Background(), "", nil)
	return &peer.Peer{AuthInfo: info}
}()

// serverConn is a connection: what one ClientConn has with this server. Its token, which the server
// draws, names it together with the client's address, or with its keys.
type serverConn struct {
	server    *Server
	token     uint64
	from      transport.Addr
	state     *erpc.ConnectionState // of the keys, nil for plain packets
	peer      *peer.Peer
	userAgent []string // as values of metadata
	authority []string
	accept    []string      // the names of compressors that the client has, as a value of metadata
	accepted  []string      // the same one by one
	expiry    *time.Timer   // until Life comes
	ended     chan struct{} // closed when over is set
	watch     connWatch

	mu      sync.Mutex
	alive   bool // Life has come
	leaving bool // the client shall go elsewhere
	shut    bool // ... and has had the time for that: no calls begin
	over    bool
	calls   int        // under way, of both kinds
	unary   *unaryCall // those of one request, a list
	since   time.Time  // when there were no calls any more
	timers  connTimers
	wait    erpc.ReqHandle // Leave, if it waits
	waits   bool
	streams map[uint64]*serverStream
	running int           // handlers of streams, also of those that the client has left
	line    fifo[waiting] // handlers that wait for others to return
	left    int           // of them, those of streams that the client has left
	pipe    serverPipe
}

// onHello opens a connection.
func (s *Server) onHello(ctx context.Context, req []byte) ([]byte, error) {
	h, err := frame.ParseHello(req)
	if err != nil {
		return nil, err
	}
	w := s.opts.told
	w.Version = frame.Version
	if h.Version != frame.Version {
		w.Refusal = fmt.Sprintf("the server speaks version %d of grpcerpc's format, the client %d",
			frame.Version, h.Version)
		return w.Append(nil), nil
	}
	if n := len(h.UserAgent) + len(h.Authority) + len(h.Accept); n > maxNames {
		w.Refusal = fmt.Sprintf("user agent, authority and compressors have %d bytes, more than %d",
			n, maxNames)
		return w.Append(nil), nil
	}
	r, _ := erpc.HandleFrom(ctx)
	c, refusal := s.newConn(r, &h)
	if w.Refusal = refusal; c != nil {
		w.Token = c.token
	}
	return w.Append(nil), nil
}

// newConn makes a connection, or says why not.
func (s *Server) newConn(r erpc.ReqHandle, h *frame.Hello) (*serverConn, string) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	p := *security
	p.Addr, p.LocalAddr = addrOf(r.Peer()), addrOf(r.Rpc().LocalAddr())
	identify(&p, r.State())
	if info, err := s.opts.localClient(addrOf(r.Peer())); err != nil {
		return nil, err.Error()
	} else if info != nil {
		p.AuthInfo = info
	}
	c := &serverConn{
		server: s, token: binary.LittleEndian.Uint64(random[:]), from: r.Peer(), state: r.State(),
		peer:      &p,
		userAgent: []string{h.UserAgent}, authority: []string{h.Authority},
		ended: make(chan struct{}), streams: make(map[uint64]*serverStream),
	}
	if c.accepted = h.Accepted(); len(c.accepted) > 0 {
		c.accept = []string{strings.Join(c.accepted, ",")}
	}
	c.pipe.init(c, r.Rpc())
	c.watch = watchConn(s.opts.stats, false, &p)
	if refusal := s.add(c); refusal != "" {
		c.watch.end()
		return nil, refusal
	}
	return c, ""
}

// add makes a connection one of the server's, or says why not.
func (s *Server) add(c *serverConn) (refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return "the server is shutting down"
	case len(s.conns) >= maxConns:
		return "too many connections"
	case s.peers[c.from] >= maxOfPeer:
		return "too many connections of this address"
	}
	s.peers[c.from]++
	s.conns[c.token] = c
	c.expiry = time.AfterFunc(lifeWithin, c.expire)
	c.watchAge()
	return ""
}

// conn returns the connection of the client that sent a request, nil if it has none of that token.
// A client whose packets are sealed may have moved to another address: its keys name it.
func (s *Server) conn(token uint64, r erpc.ReqHandle) *serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[token]
	if c == nil || c.from != r.Peer() && (c.state == nil || c.state != r.State()) {
		return nil
	}
	return c
}

// expire forgets a connection whose client did not come back.
func (c *serverConn) expire() {
	c.mu.Lock()
	alive := c.alive
	c.mu.Unlock()
	if !alive {
		c.close()
	}
}

// onLife stays until the connection ends, by whichever side: its context ends with the client's
// session.
func (s *Server) onLife(ctx context.Context, req []byte) ([]byte, error) {
	r := frame.NewReader(req)
	token := r.Fixed()
	h, _ := erpc.HandleFrom(ctx)
	c := s.conn(token, h)
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	c.alive = true
	c.mu.Unlock()
	c.expiry.Stop()
	select {
	case <-ctx.Done():
		c.close()
	case <-c.ended:
	}
	return nil, nil
}

// onLeave keeps a request whose answer tells the client to go elsewhere. A connection has one.
func (s *Server) onLeave(h erpc.ReqHandle) {
	r := frame.NewReader(h.Data())
	c := s.conn(r.Fixed(), h)
	if c == nil || !c.keep(h) {
		_ = h.RespondBytes(nil) // in vain if the session has ended
	}
}

// keep keeps Leave. It reports false if it is to be answered at once.
func (c *serverConn) keep(h erpc.ReqHandle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving || c.waits {
		return false
	}
	c.wait, c.waits = h, true
	return true
}

// stream returns the stream of a section, a new one if it opens one. It returns nil for a stream
// that has ended, and an error for one that cannot be. It is called in the loop.
func (c *serverConn) stream(sec *frame.Section) (*serverStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := c.streams[sec.Stream]; st != nil || sec.Stream <= c.pipe.high {
		return st, nil
	}
	c.pipe.high = sec.Stream
	switch {
	case sec.End:
		return nil, nil
	case sec.Open == nil:
		return nil, errFrames
	case c.over: // which the pipe does not know yet
		return nil, errEnded.Err()
	case max(len(c.streams), c.line.len()-c.left) >= c.server.opts.mostBegun():
		return nil, status.Error(codes.ResourceExhausted,
			"grpcerpc: too many streams of the connection")
	}
	st := newServerStream(c, sec.Stream)
	c.streams[sec.Stream] = st
	return st, nil
}

// waiting is a stream whose handler waits for its turn.
type waiting struct {
	st      *serverStream
	handler func()
}

// run runs a stream's handler in a goroutine, once there are few enough of them.
func (c *serverConn) run(st *serverStream, handler func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st.waits = true
	c.line.push(waiting{st, handler})
	c.runNext()
}

// returned notes that a handler has.
func (c *serverConn) returned() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.runNext()
}

func (c *serverConn) runNext() {
	for c.line.len() > 0 && c.running < c.server.opts.maxStreams {
		c.start(c.line.pop())
	}
}

func (c *serverConn) start(w waiting) {
	if c.streams[w.st.id] != w.st {
		c.left--
	}
	w.st.waits = false
	c.running++
	go w.handler()
}

// forget takes a stream that has ended out of the connection.
func (c *serverConn) forget(st *serverStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[st.id] != st {
		return
	}
	delete(c.streams, st.id)
	if st.waits {
		if c.left++; 2*c.left > c.line.len() {
			c.clearLine()
		}
	}
}

// clearLine starts the handlers of streams that the client has left: they return at once.
func (c *serverConn) clearLine() {
	for range c.line.len() {
		if w := c.line.pop(); c.streams[w.st.id] == w.st {
			c.line.push(w)
		} else {
			c.start(w)
		}
	}
}

// incoming completes metadata that came with a call. The values are shared: package metadata copies
// what it gives to applications.
func (c *serverConn) incoming(md metadata.MD, h *frame.Head) metadata.MD {
	if md == nil {
		md = make(metadata.MD, 4)
	}
	md[":authority"], md["user-agent"] = c.authority, c.userAgent
	if len(h.Authority) > 0 {
		md[":authority"] = []string{string(h.Authority)}
	}
	if accept := c.accepts(string(h.Compressor)); len(accept) > 0 {
		md["grpc-accept-encoding"] = accept
	}
	md["content-type"] = plainType
	if len(h.Subtype) > 0 {
		md["content-type"] = []string{contentType(string(h.Subtype))}
	}
	return md
}

// accepts returns the compressors that the client has, with the one of a call.
func (c *serverConn) accepts(compressor string) []string {
	switch {
	case compressor == "" || slices.Contains(c.accepted, compressor):
		return c.accept
	case len(c.accepted) == 0:
		return []string{compressor}
	}
	return []string{c.accept[0] + "," + compressor}
}

// plainType is the content type of calls that name no codec.
var plainType = []string{contentType("")}
