package failures

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	"github.com/userspace-rpc/erpc/kit/outfile"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/rawudp/afpacket"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

const (
	workTime  = 3 * time.Millisecond // of a handler
	reqType   = 1
	idBytes   = 8
	tlsName   = "node" // in the one certificate that all processes have
	echoName  = "failures.Echo"
	echoCall  = "/" + echoName + "/Echo"
	drainTime = 5 * time.Second
)

// pskKey is for this lab alone.
var pskKey = []byte("the failure matrix has this key.")

// config is that of either side.
func (r *role) config() (cfg erpc.Config, err error) {
	if r.Client == rpcClient {
		cfg.Slots = callers // it has one session
	}
	switch r.Security {
	case byPSK:
		cfg.PSK = [][]byte{pskKey}
	case byTLS:
		path := func(name string) string { return filepath.Join(r.Dir, name+".pem") }
		cert, err := tls.LoadX509KeyPair(path("tls-cert"), path("tls-key"))
		if err != nil {
			return cfg, err
		}
		ca, err := os.ReadFile(path("tls-ca"))
		if err != nil {
			return cfg, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca)
		cfg.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool,
			ServerName: tlsName}
	}
	return cfg, nil
}

// open opens the transport.
func (r *role) open() (transport.Transport, error) {
	inMemory := shm.Config{Dir: filepath.Join(r.Dir, "shm")}
	switch r.Transport {
	case shmTransport:
		return shm.Listen(r.Listen, inMemory)
	case autoTransport:
		return auto.Listen(r.Listen, auto.Config{SHM: inMemory})
	case afpacketTransport:
		return afpacket.Listen(r.Listen, afpacket.Config{})
	}
	return udp.Listen(r.Listen, udp.Config{})
}

// handler is what all servers do.
type handler struct {
	runs *os.File
	hang atomic.Bool
}

// run notes the call, works, and returns the answer.
func (h *handler) run(request []byte) ([]byte, error) {
	if len(request) < idBytes {
		return nil, fmt.Errorf("request of %d bytes", len(request))
	}
	if _, err := h.runs.Write(request[:idBytes]); err != nil {
		return nil, err
	}
	time.Sleep(workTime)
	if h.hang.Load() {
		select {}
	}
	return request, nil
}

// serving is a server of any library.
type serving struct {
	addr  string
	serve func() error
	drain func() error // answers what is under way, and ends it
}

// serve is the server's process: it says its address, and obeys until standard input ends.
func (r *role) serve() (err error) {
	h := new(handler)
	h.runs, err = outfile.Open(r.Runs, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer h.runs.Close()
	listen := map[string]func(*handler) (*serving, error){"erpc": r.listenERPC,
		"grpcerpc": r.listenGRPCERPC, "grpc-go": r.listenGRPC}[r.Library]
	s, err := listen(h)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- s.serve() }()
	fmt.Println("addr", s.addr)
	told := make(chan struct{})
	go func() {
		orders(func(word, _ string) {
			switch word {
			case "hang":
				h.hang.Store(true)
				fmt.Println("done")
			case "drain":
				go func() { ended <- s.drain() }()
			}
		})
		close(told)
	}()
	select {
	case <-told:
		return nil
	case err := <-ended:
		if errors.Is(err, erpc.ErrClosed) || errors.Is(err, grpc.ErrServerStopped) {
			err = nil
		}
		if err == nil {
			return <-ended // the drain's, or Serve's
		}
		return err
	}
}

func (r *role) listenERPC(h *handler) (*serving, error) {
	cfg, err := r.config()
	if err != nil {
		return nil, err
	}
	s, err := erpc.NewServer(cfg)
	if err != nil {
		return nil, err
	}
	err = s.Handle(reqType, func(_ context.Context, request []byte) ([]byte, error) {
		return h.run(request)
	})
	if err != nil {
		return nil, err
	}
	tr, err := r.open()
	if err != nil {
		return nil, err
	}
	return &serving{addr: r.addrOf(tr), serve: func() error { return notClosed(s.Serve(tr)) },
		drain: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), drainTime)
			defer cancel()
			return s.Shutdown(ctx)
		}}, nil
}

// notClosed is the error of a server that was not told to end.
func notClosed(err error) error {
	if errors.Is(err, erpc.ErrClosed) {
		return nil
	}
	return err
}

// addrOf is the address that clients get.
func (r *role) addrOf(tr transport.Transport) string {
	if r.Transport == shmTransport {
		return r.Listen // the name; each process has another address
	}
	return tr.LocalAddr().String()
}

// service is the one that generated code would register.
func (h *handler) service() *grpc.ServiceDesc {
	echo := func(_ any, _ context.Context, decode func(any) error,
		_ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.BytesValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		answer, err := h.run(in.Value)
		return wrapperspb.Bytes(answer), err
	}
	return &grpc.ServiceDesc{ServiceName: echoName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}}}
}

func (r *role) listenGRPCERPC(h *handler) (*serving, error) {
	cfg, err := r.config()
	if err != nil {
		return nil, err
	}
	s := grpcerpc.NewServer(grpcerpc.ServerConfig(cfg))
	s.RegisterService(h.service(), struct{}{})
	tr, err := r.open()
	if err != nil {
		return nil, err
	}
	return &serving{addr: r.addrOf(tr), serve: func() error { return s.Serve(tr) },
		drain: func() error { s.GracefulStop(); return nil }}, nil
}

func (r *role) listenGRPC(h *handler) (*serving, error) {
	l, err := net.Listen("tcp", r.Listen)
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer()
	s.RegisterService(h.service(), struct{}{})
	return &serving{addr: l.Addr().String(), serve: func() error { return s.Serve(l) },
		drain: func() error { s.GracefulStop(); return nil }}, nil
}
