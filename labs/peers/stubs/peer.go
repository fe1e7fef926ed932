package stubs

import (
	"errors"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/userspace-rpc/erpc/grpcerpc"
	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// largest is more than the largest message has, in bytes.
const largest = 16 << 20

// Conn is a client's connection.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
}

// Peer is a way to carry the service.
type Peer struct {
	Name, Transport string
	open            func(at string) (transport.Transport, error) // nil: grpc-go over TCP
	secure          bool
}

// smallBuffer is the receive buffer in bytes that Linux allows programs without privileges unless
// net.core.rmem_max says otherwise.
const smallBuffer = 212_992

func overSmall(at string) (transport.Transport, error) {
	return udp.Listen(at, udp.Config{RecvBuffer: smallBuffer})
}

func overUDP(at string) (transport.Transport, error) { return udp.Listen(at, udp.Config{}) }

func overBoth(at string) (transport.Transport, error) { return auto.Listen(at, auto.Config{}) }

// Peers are all that there are: in the clear, and with mutual TLS 1.3.
func Peers() []Peer {
	return []Peer{
		{"grpc-go", "tcp", nil, false}, {"grpcerpc-udp", "udp", overUDP, false},
		{"grpcerpc-shm", "shm", overBoth, false},
		{"grpc-go-tls", "tcp", nil, true}, {"grpcerpc-udp-tls", "udp", overUDP, true},
		{"grpcerpc-shm-tls", "shm", overBoth, true}, {"grpcerpc-udp-small", "udp", overSmall, false},
	}
}

// ByName finds a peer.
func ByName(name string) (Peer, error) {
	for _, p := range Peers() {
		if p.Name == name {
			return p, nil
		}
	}
	return Peer{}, errors.New("there is no peer " + name)
}

// credentials returns those of either side.
func (p *Peer) credentials() credentials.TransportCredentials {
	switch {
	case !p.secure:
		return insecure.NewCredentials()
	case p.open == nil:
		return credentials.NewTLS(echo.TLSConfig())
	}
	return grpcerpc.NewTLS(echo.TLSConfig())
}

// Serve begins to serve at an address of TCP or UDP, and returns the one that it got.
func (p *Peer) Serve(at string) (addr string, err error) {
	if p.open == nil {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return "", err
		}
		s := grpc.NewServer(grpc.Creds(p.credentials()), grpc.MaxRecvMsgSize(largest))
		s.RegisterService(&service, struct{}{})
		go func() { _ = s.Serve(l) }() // ends with the process
		return l.Addr().String(), nil
	}
	tr, err := p.open(at)
	if err != nil {
		return "", err
	}
	s := grpcerpc.NewServer(grpcerpc.Creds(p.credentials()), grpcerpc.MaxRecvMsgSize(largest))
	s.RegisterService(&service, struct{}{})
	go func() { _ = s.Serve(tr) }()
	return tr.LocalAddr().String(), nil
}

// Dial connects a client to addr. Its own address is at, with any port.
func (p *Peer) Dial(addr, at string) (Conn, error) {
	const prefix = "passthrough:///"
	if p.open == nil {
		return grpc.NewClient(prefix+addr, grpc.WithTransportCredentials(p.credentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)))
	}
	c := new(counted)
	conn, err := grpcerpc.NewClient(prefix+addr,
		grpcerpc.WithTransport(func() (transport.Transport, error) {
			tr, err := p.open(at)
			c.transports = append(c.transports, tr)
			return tr, err
		}),
		grpcerpc.WithTransportCredentials(p.credentials()),
		grpcerpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)))
	c.Conn = conn
	return c, err
}

// counted is a connection of grpcerpc with the transports that it opened.
type counted struct {
	Conn
	transports []transport.Transport
}

// Packets returns how many packets a connection has sent that was closed, 0 if they are not
// counted.
func Packets(c Conn) (n uint64) {
	if c, ok := c.(*counted); ok {
		for _, tr := range c.transports {
			n += tr.Stats().TxPackets
		}
	}
	return n
}
