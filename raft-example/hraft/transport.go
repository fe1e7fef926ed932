package hraft

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// Request types.
const (
	typeAppend   = 1
	typePipeline = 2
	typeVote     = 3
	typePreVote  = 4
	typeTimeout  = 5
	typeSnapOpen = 6
	typeSnapData = 7
	typeSnapEnd  = 8
	typePipeOpen = 9
)

// The errors of this transport; those of a peer's Raft come as their text.
var (
	ErrRemote    = errors.New("hraft: error of the peer")
	ErrMalformed = errors.New("hraft: malformed message")
	ErrShutdown  = raft.ErrTransportShutdown
	// ErrNotAdvertisable means that other members cannot reach the address, such as
	// 0.0.0.0:7000: name one in Config.Advertise.
	ErrNotAdvertisable = errors.New("hraft: the address is unspecified, so peers cannot " +
		"reach it: name one to advertise")
	ErrStreamsClosed = errors.New("hraft: the peer has closed its streams, " +
		"or forgotten the pipeline")
	ErrConfig = errors.New("hraft: bad config")
)

// Config configures a Transport. The zero value works.
type Config struct {
	// Timeout ends an RPC. For a snapshot of more than 256 KiB it is multiplied by the size
	// in units of 256 KiB, as raft.NetworkTransport does; and it counts anew from each piece
	// that the receiver has read. A peer that is dead is noticed earlier. Default 10 s.
	Timeout time.Duration
	// MaxRPCsInFlight is how many AppendEntries of a pipeline may be under way, as in
	// raft.NetworkTransportConfig: 0 means 2, 1 means that there is no pipeline. At most 512.
	MaxRPCsInFlight int
	// Advertise is the address that peers are told, "host:port"; the one that is listened on
	// without it.
	Advertise string
	// ServerAddressProvider gives the address of a server by its id. When it fails, Raft's
	// own is used. Default: none.
	ServerAddressProvider raft.ServerAddressProvider
	// Erpc configures the endpoint. MaxMessage must hold the largest AppendEntries;
	// it defaults to 64 MiB here.
	Erpc erpc.Config
}

// Transport implements raft.Transport, raft.WithPreVote and raft.WithClose.
type Transport struct {
	cfg       Config
	advertise raft.ServerAddress
	nexus     *erpc.Nexus
	rpc       *erpc.Rpc
	consume   chan raft.RPC
	heartbeat atomic.Pointer[func(raft.RPC)]
	feed      chan *incoming
	closing   chan struct{}
	closeOnce sync.Once
	ended     chan struct{}
	wg        sync.WaitGroup // goroutines that serve requests
	closeErr  error

	sessions  map[way]*erpc.Session // the loop's
	leaving   []*erpc.Session       // the loop's: replaced, and closed when nothing is under way
	pipelines map[uint64]*order     // the loop's
	snapshots map[uint64]*stream    // the loop's
}

// way is a session's place: large messages have one of their own, so that heartbeats and votes do
// not wait for its slots.
type way struct {
	to   raft.ServerAddress
	bulk bool
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
	_ raft.WithClose   = (*Transport)(nil)
)

// NewUDPTransport listens on addr, "host:port"; peers reach it under the same address, or under
// Config.Advertise. Errors: ErrNotAdvertisable, ErrConfig, those of the system.
func NewUDPTransport(addr string, cfg Config) (*Transport, error) {
	conn, err := udp.Listen(addr, udp.Config{})
	if err != nil {
		return nil, err
	}
	return New(conn, cfg)
}

// New makes a Transport on any transport of the library, which it owns.
func New(tr transport.Transport, cfg Config) (*Transport, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.MaxRPCsInFlight == 0 {
		cfg.MaxRPCsInFlight = raft.DefaultMaxRPCsInFlight
	}
	if cfg.Erpc.Slots == 0 && cfg.MaxRPCsInFlight > 8 { // of a session, whose default is 8
		cfg.Erpc.Slots = min(1<<bits.Len(uint(cfg.MaxRPCsInFlight-1)), erpc.MaxSlots)
	}
	addr, err := advertised(tr, &cfg)
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	if cfg.Erpc.MaxMessage == 0 {
		cfg.Erpc.MaxMessage = 64 << 20
	}
	t := &Transport{cfg: cfg, advertise: addr,
		consume: make(chan raft.RPC), feed: make(chan *incoming, 1024),
		closing: make(chan struct{}), ended: make(chan struct{}),
		sessions: map[way]*erpc.Session{}, pipelines: map[uint64]*order{},
		snapshots: map[uint64]*stream{}}
	if t.nexus, err = erpc.NewNexus(cfg.Erpc); err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	for typ := uint8(typeAppend); typ <= typePipeOpen && err == nil; typ++ {
		err = t.nexus.Register(typ, erpc.Dispatch, t.onRequest)
	}
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	if t.rpc, err = t.nexus.NewRpc(tr); err != nil {
		return nil, errors.Join(err, t.nexus.Close())
	}
	go t.run()
	t.wg.Go(t.serve)
	return t, nil
}

// advertised returns the address that peers are told.
func advertised(tr transport.Transport, cfg *Config) (raft.ServerAddress, error) {
	if n := cfg.MaxRPCsInFlight; n < 0 || n > maxAhead {
		return "", fmt.Errorf("%w: MaxRPCsInFlight %d, want 0 to %d", ErrConfig, n, maxAhead)
	}
	addr := cfg.Advertise
	if addr == "" {
		addr = tr.LocalAddr().String()
	}
	host, _, err := net.SplitHostPort(addr)
	switch ip, _ := netip.ParseAddr(host); {
	case err != nil && cfg.Advertise != "":
		return "", fmt.Errorf("%w: Advertise %q: %w", ErrConfig, addr, err)
	case err == nil && (host == "" || ip.IsUnspecified()):
		return "", fmt.Errorf("%w: %s", ErrNotAdvertisable, addr)
	}
	return raft.ServerAddress(addr), nil // one that is no host:port is of another kind of transport
}

// address is where a server is to be called.
func (t *Transport) address(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	if p := t.cfg.ServerAddressProvider; p != nil {
		if other, err := p.ServerAddr(id); err == nil {
			return other
		}
	}
	return addr
}

// CloseStreams lets every RPC from now on use a new session; sessions that are open are closed
// when what is under way on them has ended. Pipelines that peers have to this side end with
// ErrStreamsClosed, and their Raft begins others. raft.NetworkTransport does the same, but that
// no other RPC fails here. What comes after it has returned finds them ended.
func (t *Transport) CloseStreams() {
	done := make(chan struct{})
	err := t.rpc.Post(func(*erpc.Rpc) {
		defer close(done)
		for w, s := range t.sessions {
			t.leaving = append(t.leaving, s)
			delete(t.sessions, w)
		}
		for _, o := range t.pipelines {
			o.close()
		}
		clear(t.pipelines)
	})
	if err != nil {
		return // a closed Rpc has none
	}
	select {
	case <-done:
	case <-t.ended:
	}
}

// leave closes replaced sessions that are idle.
func (t *Transport) leave() {
	t.leaving = slices.DeleteFunc(t.leaving, func(s *erpc.Session) bool {
		if s.Err() != nil {
			return true
		}
		if out, queued := s.Pending(); out+queued > 0 {
			return false
		}
		_ = t.rpc.CloseSession(s)
		return true
	})
}

// run is the loop's goroutine.
func (t *Transport) run() {
	defer close(t.ended)
	err := t.rpc.Run(func() bool {
		if len(t.leaving) > 0 {
			t.leave()
		}
		select {
		case <-t.closing:
			return true
		default:
			return false
		}
	})
	t.closeErr = errors.Join(err, t.rpc.Close(), t.nexus.Close())
}

// Close implements raft.WithClose.
func (t *Transport) Close() error {
	t.closeOnce.Do(func() { close(t.closing) })
	t.rpc.Wake()
	<-t.ended
	t.wg.Wait()
	return t.closeErr
}

// Consumer implements raft.Transport.
func (t *Transport) Consumer() <-chan raft.RPC { return t.consume }

// LocalAddr implements raft.Transport: it is the address that peers are told.
func (t *Transport) LocalAddr() raft.ServerAddress { return t.advertise }

// EncodePeer implements raft.Transport.
func (t *Transport) EncodePeer(id raft.ServerID, addr raft.ServerAddress) []byte {
	return []byte(t.address(id, addr))
}

// DecodePeer implements raft.Transport.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (t *Transport) SetHeartbeatHandler(cb func(raft.RPC)) {
	if cb == nil {
		t.heartbeat.Store(nil)
		return
	}
	t.heartbeat.Store(&cb)
}

// AppendEntries implements raft.Transport.
func (t *Transport) AppendEntries(id raft.ServerID, to raft.ServerAddress,
	args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return t.call(t.address(id, to), typeAppend, nil, args, resp)
}

// RequestVote implements raft.Transport.
func (t *Transport) RequestVote(id raft.ServerID, to raft.ServerAddress,
	args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.call(t.address(id, to), typeVote, nil, args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *Transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress,
	args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.call(t.address(id, to), typePreVote, nil, args, resp)
}

// TimeoutNow implements raft.Transport.
func (t *Transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress,
	args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.call(t.address(id, to), typeTimeout, nil, args, resp)
}

// call does one RPC and waits for it.
func (t *Transport) call(to raft.ServerAddress, typ uint8, head []byte, args, resp any) error {
	b, err := encode(head, args)
	if err != nil {
		return err
	}
	return t.roundTrip(to, typ, b, t.cfg.Timeout, resp)
}

// roundTrip sends a request and waits for its answer.
func (t *Transport) roundTrip(to raft.ServerAddress, typ uint8, b []byte, timeout time.Duration,
	resp any) error {
	got := make(chan error, 1)
	t.send(to, typ, b, timeout, func(answer []byte, err error) {
		if err == nil {
			err = parse(answer, resp)
		}
		got <- err
	})
	return <-got
}

// send starts an RPC. Done is called once, in the loop; answer is valid until it returns.
func (t *Transport) send(to raft.ServerAddress, typ uint8, b []byte, timeout time.Duration,
	done func(answer []byte, err error)) {
	err := t.rpc.Post(func(r *erpc.Rpc) {
		if err := t.enqueue(to, typ, b, timeout, done); err != nil {
			done(nil, err)
		}
	})
	if err != nil {
		done(nil, ErrShutdown)
	}
}

func (t *Transport) enqueue(to raft.ServerAddress, typ uint8, b []byte, timeout time.Duration,
	done func([]byte, error)) error {
	w := way{to, typ == typePipeline || typ == typePipeOpen || typ == typeSnapData}
	s := t.sessions[w]
	if s == nil || s.Err() != nil {
		var err error
		if s, err = t.rpc.CreateSession(string(to)); err != nil {
			return err
		}
		t.sessions[w] = s
	}
	req, err := t.rpc.Alloc(len(b))
	if err != nil {
		return err
	}
	copy(req.Data(), b)
	_, err = t.rpc.EnqueueRequest(s, erpc.Request{Type: typ, Req: req, Timeout: timeout,
		Done: func(c erpc.Completion) {
			c.Req.Free()
			if c.Err != nil {
				done(nil, c.Err)
				return
			}
			done(c.Resp.Data(), nil)
			c.Resp.Free()
		}})
	if err != nil {
		req.Free()
	}
	return err
}

var msgpack = &codec.MsgpackHandle{}

// encode appends v to head.
func encode(head []byte, v any) ([]byte, error) {
	var b []byte
	if err := codec.NewEncoderBytes(&b, msgpack).Encode(v); err != nil {
		return nil, err
	}
	return append(head, b...), nil
}

func decode(b []byte, v any) (err error) {
	defer func() { // what a peer sends must not end this process, whatever the codec makes of it
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrMalformed, p)
		}
	}()
	if err := codec.NewDecoderBytes(b, msgpack).Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// answer makes the bytes of an answer.
func answer(resp any, err error) []byte {
	if err == nil {
		if b, err := encode([]byte{0}, resp); err == nil {
			return b
		}
		err = ErrMalformed
	}
	return append([]byte{1}, err.Error()...)
}

func parse(b []byte, resp any) error {
	switch {
	case len(b) == 0 || b[0] > 1:
		return ErrMalformed
	case b[0] == 1:
		return fmt.Errorf("%w: %s", ErrRemote, b[1:])
	}
	return decode(b[1:], resp)
}

// newNumber returns a random number that is not 0.
func newNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return binary.LittleEndian.Uint64(b[:]) | 1
}
