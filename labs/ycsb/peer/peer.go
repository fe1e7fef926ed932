package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	"github.com/userspace-rpc/erpc/labs/ycsb/store"
	pb "github.com/userspace-rpc/erpc/labs/ycsb/ycsbpb"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/ycsb"
)

// ErrUnknown is the error of a name that no peer has.
var ErrUnknown = errors.New("peer: unknown peer")

// Base is the peer that the others are compared with.
const Base = "grpc-tcp"

// Names are those of the peers.
var Names = []string{Base, "grpc-unix", "connect", "drpc", "erpc-udp", "erpc-shm"}

// Server serves until Close.
type Server struct {
	Addr  string
	serve func() error
	close func() error
}

// Serve returns when the server is closed.
func (s *Server) Serve() error { return s.serve() }

// Close ends it.
func (s *Server) Close() error { return s.close() }

// maxMessage bounds what servers and clients take: a scan of store.MaxScan records fits.
const maxMessage = 64 << 20

// Listen opens a server of a peer at an address: HOST:PORT, of grpc-unix a path. An empty address
// stands for any port of this machine.
func Listen(name, addr string, service *store.Service) (*Server, error) {
	if !slices.Contains(Names, name) {
		return nil, fmt.Errorf("%w: %q; there are %v", ErrUnknown, name, Names)
	}
	switch name {
	case "erpc-udp", "erpc-shm":
		return listenERPC(name, orAny(addr), service)
	case "grpc-unix":
		return listenUnix(addr, service)
	}
	l, err := net.Listen("tcp", orAny(addr))
	if err != nil {
		return nil, err
	}
	switch name {
	case "connect":
		return serveConnect(l, service), nil
	case "drpc":
		return serveDRPC(l, service)
	}
	return serveGRPC(l, service), nil
}

func orAny(addr string) string {
	if addr == "" {
		return "127.0.0.1:0"
	}
	return addr
}

func listenUnix(addr string, service *store.Service) (*Server, error) {
	remove := func() error { return nil }
	if addr == "" {
		dir, err := os.MkdirTemp("", "ycsb")
		if err != nil {
			return nil, err
		}
		addr, remove = dir+"/socket", func() error { return os.RemoveAll(dir) }
	}
	l, err := net.Listen("unix", addr)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	s := serveGRPC(l, service)
	stop := s.close
	s.close = func() error { return errors.Join(stop(), remove()) }
	return s, nil
}

func serveGRPC(l net.Listener, service *store.Service) *Server {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	pb.RegisterStoreServer(s, service)
	return &Server{
		Addr: l.Addr().String(), serve: func() error { return s.Serve(l) },
		close: func() error { s.Stop(); return nil },
	}
}

// open returns the transport of a peer.
func open(name, addr string) (transport.Transport, error) {
	if name == "erpc-udp" {
		return udp.Listen(addr, udp.Config{})
	}
	return auto.Listen(addr, auto.Config{})
}

// loops has the event loops of all connections of a peer.
var loops = map[string]*grpcerpc.Loops{
	"erpc-udp": loopsOf("erpc-udp"), "erpc-shm": loopsOf("erpc-shm"),
}

func loopsOf(name string) *grpcerpc.Loops {
	return grpcerpc.NewLoops(
		func() (transport.Transport, error) { return open(name, ":0") }, erpc.Config{})
}

func listenERPC(name, addr string, service *store.Service) (*Server, error) {
	tr, err := open(name, addr)
	if err != nil {
		return nil, err
	}
	s := grpcerpc.NewServer(grpcerpc.MaxRecvMsgSize(maxMessage))
	pb.RegisterStoreServer(s, service)
	return &Server{
		Addr: tr.LocalAddr().String(), serve: func() error { return s.Serve(tr) },
		close: func() error { s.Stop(); return nil },
	}, nil
}

// Conn is a connection, with the DB of its stub.
type Conn struct {
	ycsb.DB
	close func() error
}

// Close ends it.
func (c *Conn) Close() error { return c.close() }

// Alone reports whether a connection of the peer carries one call at a time.
func Alone(name string) bool { return name == "drpc" }

// Dial returns a connection to a server. It may connect only with the first call.
func Dial(ctx context.Context, name, addr string) (*Conn, error) {
	switch name {
	case "grpc-tcp", "grpc-unix":
		target := "passthrough:///" + addr
		if name == "grpc-unix" {
			target = "unix:" + addr
		}
		cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
		return stubbed(cc, cc, err)
	case "erpc-udp", "erpc-shm":
		cc, err := grpcerpc.NewClient("passthrough:///"+addr,
			grpcerpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
			grpcerpc.WithLoops(loops[name]))
		return stubbed(cc, cc, err)
	case "drpc":
		cc, err := dialDRPC(ctx, addr)
		return stubbed(cc, cc, err)
	case "connect":
		return dialConnect(addr), nil
	}
	return nil, fmt.Errorf("%w: %q; there are %v", ErrUnknown, name, Names)
}

func stubbed(cc grpc.ClientConnInterface, c io.Closer, err error) (*Conn, error) {
	if err != nil {
		return nil, err
	}
	return &Conn{DB: &db{stub: pb.NewStoreClient(cc)}, close: c.Close}, nil
}

// db is a ycsb.DB over a stub.
type db struct{ stub pb.StoreClient }

// named makes ycsb.ErrNotFound of the status.
func named(err error) error {
	if status.Code(err) == codes.NotFound {
		return ycsb.ErrNotFound
	}
	return err
}

func (d *db) Read(ctx context.Context, key []byte) ([]byte, error) {
	r, err := d.stub.Read(ctx, &pb.ReadRequest{Key: key})
	if err != nil {
		return nil, named(err)
	}
	return r.Record, nil
}

func (d *db) Update(ctx context.Context, key []byte, field int, value []byte) error {
	_, err := d.stub.Update(ctx, &pb.UpdateRequest{Key: key, Field: uint32(field), Value: value})
	return named(err)
}

func (d *db) Insert(ctx context.Context, key, record []byte) error {
	_, err := d.stub.Insert(ctx, &pb.InsertRequest{Key: key, Record: record})
	return named(err)
}

func (d *db) Scan(ctx context.Context, key []byte, count int) ([]ycsb.Entry, error) {
	r, err := d.stub.Scan(ctx, &pb.ScanRequest{Key: key, Count: uint32(count)})
	if err != nil {
		return nil, named(err)
	}
	entries := make([]ycsb.Entry, len(r.Entries))
	for i, e := range r.Entries {
		entries[i] = ycsb.Entry{Key: e.GetKey(), Record: e.GetRecord()}
	}
	return entries, nil
}
