package echo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
)

// Peer is one RPC library.
type Peer struct {
	Name      string // on the command line and in tables
	Module    string // whose version counts; empty for the standard library
	Transport string // what it runs over

	// ConnPerCall says that a connection carries one RPC at a time.
	ConnPerCall bool

	// Streams says that a connection is a Stream: it belongs to one goroutine, which keeps
	// many RPCs in flight itself.
	Streams bool

	// Secure says that it has mutual TLS. It is measured where it is asked for.
	Secure bool

	// MaxSize is how many bytes a request or a response has at most; 0: no limit of the peer's.
	MaxSize int

	// Unfit says why the peer cannot work on this system; empty if it can.
	Unfit string

	// Listen opens a server on 127.0.0.1.
	Listen func(Sizes) (Server, error)

	// Dial opens a connection. The caller must close it.
	Dial func(ctx context.Context, addr string, s Sizes) (Conn, error)

	// DialAll opens a connection to each address; they share what the library lets them share.
	// The caller must close all. Nil: nothing is shared, and Dial opens each.
	DialAll func(ctx context.Context, addrs []string, s Sizes) ([]Conn, error)

	// DialPool opens one connection that spreads its calls over servers at all of the addresses, and
	// leaves out those that are dead. Nil: the peer has no such thing.
	DialPool func(ctx context.Context, addrs []string, s Sizes) (Pool, error)

	// ListenAt is Listen at an address. Nil: the peer chooses its address.
	ListenAt func(addr string, s Sizes) (Server, error)
}

// Pool is a Conn to several servers.
type Pool interface {
	Conn

	// Ready returns how many servers get calls, -1 if that is not known.
	Ready() int

	// NotRun reports whether a call that ended with err certainly did not run.
	NotRun(err error) bool
}

// Connect opens a connection to each address, by DialAll if the peer has it. On an error none is
// left open.
func (p *Peer) Connect(ctx context.Context, addrs []string, s Sizes) (list []Conn, err error) {
	if p.DialAll != nil {
		return p.DialAll(ctx, addrs, s)
	}
	for _, addr := range addrs {
		c, err := p.Dial(ctx, addr, s)
		if err != nil {
			return nil, errors.Join(err, CloseAll(list))
		}
		list = append(list, c)
	}
	return list, nil
}

// CloseAll closes connections.
func CloseAll(list []Conn) (err error) {
	for _, c := range list {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Sizes are the bytes of a request and of a response, and the work between them.
type Sizes struct {
	Request, Response int
	Work              Work // of the handler, before it answers
}

// limit is the largest message that libraries with a limit are told to take: with
// room for the envelope, and never below their default.
func (s Sizes) limit() int { return max(4<<20, s.Request, s.Response) + 1<<20 }

// Server answers requests.
type Server interface {
	Addr() string
	Serve() error // returns after Close; its error then means nothing
	Close() error
}

// Conn is a connection to a Server.
type Conn interface {
	// NewCall returns calls for one goroutine, which may reuse memory: a response is
	// valid until the next call. Several such calls share the connection, unless
	// the peer's ConnPerCall or Streams says otherwise.
	NewCall() Call
	Close() error
}

// Stream is a Conn for one goroutine that keeps many RPCs in flight without waiting.
type Stream interface {
	Conn

	// Send copies a request; it leaves with the next Poll. Its response has the same id.
	Send(id uint64, request []byte)

	// Poll reads and writes what it can without waiting, and calls got for each response,
	// which is valid until got returns; got may Send. Busy says whether anything came or
	// went. After an error, got's too, the Stream is of no use but to be closed.
	Poll(got func(id uint64, response []byte) error) (busy bool, err error)
}

// Counted is a Server or a Conn that counts what it sends.
type Counted interface {
	// Sent returns the packets since the beginning, and the system calls that sent them.
	Sent() (packets, calls uint64)
}

// Call does one RPC and waits for its response.
type Call func(ctx context.Context, request []byte) (response []byte, err error)

// Peers are all that there are, in the order of tables.
func Peers() []Peer {
	return []Peer{grpcPeer, connectPeer, drpcPeer, netRPCPeer, tcpPeer, udpPeer, erpcPeer,
		grpcTLSPeer, erpcTLSPeer}
}

// ForLarge are the further peers that large messages and lost packets are measured with.
func ForLarge() []Peer {
	return []Peer{erpcCallPeer, erpcReusePeer, erpcLoopPeer, muxPeer, muxReusePeer, leanMuxPeer,
		barePeer, quicPeer}
}

// ByName finds a peer. Beside Peers there are those of Redialling and ForLarge, and net-udp and
// udp-mux, no libraries but the least programs that call from goroutines.
func ByName(name string) (Peer, bool) {
	list := slices.Concat(Peers(), []Peer{leastPeer, udpMuxPeer}, Redialling(), ForLarge())
	i := slices.IndexFunc(list, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, false
	}
	return list[i], true
}

// anyPort is where servers listen that nobody told where.
const anyPort = "127.0.0.1:0"

func listenTCP() (net.Listener, error) { return net.Listen("tcp", anyPort) }

// near returns the address of this machine that packets to addr leave from, with any port.
func near(addr string) (string, error) {
	c, err := net.Dial("udp", addr) // sends nothing
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }() // nothing was sent
	host, _, err := net.SplitHostPort(c.LocalAddr().String())
	return net.JoinHostPort(host, "0"), err
}

const seqBytes = 8 // that tell requests apart

// Payload returns n bytes of the pattern that requests and responses hold.
func Payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*131 + i>>8)
	}
	return b
}

// Stamp makes a request differ from all others, if it is long enough for that.
func Stamp(request []byte, seq uint64) {
	if len(request) >= seqBytes {
		binary.LittleEndian.PutUint64(request, seq)
	}
}

// replier makes responses.
type replier struct {
	fixed []byte
	work  func() // nil: none
}

// newReplier: without a size of its own a response is the request.
func newReplier(s Sizes) replier {
	r := replier{work: s.Work.worker()}
	if s.Request != s.Response {
		r.fixed = Payload(s.Response)
	}
	return r
}

func (r replier) reply(request []byte) []byte {
	if r.work != nil {
		r.work()
	}
	if r.fixed == nil {
		return request
	}
	return r.fixed
}

// probed is how much of each end of a response Check compares if it is not to
// compare all: enough to notice one that belongs to another request.
const probed = 32

// Check compares a response with what the request asks for: its size, and its ends or
// the whole of it. Fixed is the payload if the response is not an echo, else nil.
func Check(request, fixed, response []byte, whole bool) error {
	want := request
	if fixed != nil {
		want = fixed
	}
	if len(response) != len(want) {
		return fmt.Errorf("response of %d bytes, want %d", len(response), len(want))
	}
	n := len(want)
	if !whole && n > 2*probed {
		if !bytes.Equal(response[:probed], want[:probed]) ||
			!bytes.Equal(response[n-probed:], want[n-probed:]) {
			return fmt.Errorf("response differs from what was asked for")
		}
		return nil
	}
	if !bytes.Equal(response, want) {
		return fmt.Errorf("response differs from what was asked for")
	}
	return nil
}
