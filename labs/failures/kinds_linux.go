package failures

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc"
	"github.com/userspace-rpc/erpc/transport"
)

// kind is a client of any library, connected to all of its servers.
type kind struct {
	call    func(ctx context.Context, request []byte) ([]byte, error)
	moved   func(servers []string) // says where the servers are now; nil: the client cannot be told
	watched erpc.Watched           // nil of grpc-go
	left    func() bool            // whether a Pool has left a server; nil: nobody says
	ready   func(ctx context.Context) error
}

// dial makes the client of a role.
func (r *role) dial() (*kind, error) {
	cfg, err := r.config()
	if err != nil {
		return nil, err
	}
	switch {
	case r.Library == "grpc-go":
		return r.dialGRPC()
	case r.Library == "grpcerpc":
		return r.dialGRPCERPC(cfg)
	}
	tr, err := r.open()
	if err != nil {
		return nil, err
	}
	switch r.Client {
	case rpcClient:
		return dialRpc(tr, cfg, r.Servers[0])
	case oneClient:
		to := r.Servers[0]
		if r.Named {
			to = followName(to)
		}
		c, err := erpc.Dial(context.Background(), tr, to, cfg)
		if err != nil {
			return nil, err
		}
		return &kind{watched: c, ready: c.Ready, moved: nameServers,
			call: func(ctx context.Context, request []byte) ([]byte, error) {
				return c.Call(ctx, reqType, request)
			}}, nil
	}
	return dialPool(tr, cfg, r.Servers)
}

func dialPool(tr transport.Transport, cfg erpc.Config, servers []string) (*kind, error) {
	loop, err := erpc.NewLoop(tr, cfg)
	if err != nil {
		return nil, err
	}
	var list atomic.Pointer[[]string]
	list.Store(&servers)
	p, err := erpc.NewPool(erpc.PoolConfig{Resolver: func(context.Context) ([]string, error) {
		return *list.Load(), nil
	}}, loop)
	if err != nil {
		return nil, err
	}
	ready := func() (n int) {
		for _, s := range p.Servers() {
			if s.State == erpc.ServerReady {
				n++
			}
		}
		return n
	}
	return &kind{watched: loop, moved: func(s []string) { list.Store(&s) },
		left: func() bool { return ready() < len(servers) },
		ready: func(ctx context.Context) error {
			for ready() < len(servers) && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			return ctx.Err()
		},
		call: func(ctx context.Context, request []byte) ([]byte, error) {
			return p.Call(ctx, reqType, request)
		}}, nil
}

// stub is a connection that generated code would use.
type stub interface {
	Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error
}

// callStub returns calls through a stub.
func callStub(s stub) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		out := new(wrapperspb.BytesValue)
		err := s.Invoke(ctx, echoCall, wrapperspb.Bytes(request), out)
		return out.Value, err
	}
}

// resolved is a resolver of grpc that this program moves, and a service config with the policy.
func (r *role) resolved() (names *manual.Resolver, target, config string, moved func([]string)) {
	names = manual.NewBuilderWithScheme("servers")
	state := func(servers []string) (s resolver.State) {
		for _, a := range servers {
			s.Endpoints = append(s.Endpoints, resolver.Endpoint{
				Addresses: []resolver.Address{{Addr: a}}})
		}
		return s
	}
	names.InitialState(state(r.Servers))
	policy := strings.TrimPrefix(r.Client, "grpcerpc-")
	return names, "servers:///all", `{"loadBalancingConfig": [{"` + policy + `": {}}]}`,
		func(servers []string) { names.UpdateState(state(servers)) }
}

func (r *role) dialGRPC() (*kind, error) {
	names, target, config, moved := r.resolved()
	options := []grpc.DialOption{grpc.WithResolvers(names), grpc.WithDefaultServiceConfig(config),
		grpc.WithTransportCredentials(insecure.NewCredentials())}
	if r.Keepalive {
		options = append(options, grpc.WithKeepaliveParams(
			keepalive.ClientParameters{Time: 10 * time.Second}))
	}
	c, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, err
	}
	return &kind{call: callStub(c), moved: moved}, nil
}

// rpcs are endpoints to watch that somebody else has.
type rpcs struct {
	mu   sync.Mutex
	list []*erpc.Rpc
}

func (w *rpcs) Rpcs() []*erpc.Rpc {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list
}

func (r *role) dialGRPCERPC(cfg erpc.Config) (*kind, error) {
	names, target, config, moved := r.resolved()
	seen := new(rpcs)
	// A ClientConn does not show its endpoint; its sessions do.
	cfg.OnSession = func(r *erpc.Rpc, _ *erpc.Session, _ erpc.SessionEvent) {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		seen.list = []*erpc.Rpc{r}
	}
	c, err := grpcerpc.NewClient(target, grpcerpc.WithResolvers(names),
		grpcerpc.WithDefaultServiceConfig(config), grpcerpc.WithConfig(cfg),
		grpcerpc.WithTransport(r.open))
	if err != nil {
		return nil, err
	}
	return &kind{call: callStub(c), moved: moved, watched: seen}, nil
}

// rpcConn is an application on the event loop: a session to one server, opened again when it ends.
type rpcConn struct {
	*erpc.Rpc
	addr    string
	session *erpc.Session // in the loop
}

// reopenAfter is how long the application waits before it opens its session again.
const reopenAfter = 10 * time.Millisecond

func dialRpc(tr transport.Transport, cfg erpc.Config, addr string) (*kind, error) {
	c := &rpcConn{addr: addr}
	cfg.OnSession = c.onSession
	n, err := erpc.NewNexus(cfg)
	if err != nil {
		return nil, err
	}
	if c.Rpc, err = n.NewRpc(tr); err != nil {
		return nil, err
	}
	if c.session, err = c.CreateSession(addr); err != nil {
		return nil, err
	}
	go func() { _ = c.Run(func() bool { return false }) }()
	return &kind{watched: c.Rpc, call: c.call}, nil
}

// onSession opens the next session when the last one has ended, or will not take more.
func (c *rpcConn) onSession(r *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
	if ev == erpc.SessionConnected || s != c.session {
		return
	}
	c.session = nil
	_, _ = r.AfterFunc(reopenAfter, c.reopen)
}

func (c *rpcConn) reopen() {
	s, err := c.CreateSession(c.addr)
	if err != nil {
		_, _ = c.AfterFunc(reopenAfter, c.reopen)
		return
	}
	c.session = s
}

var errNoSession = errors.New("no session")

// call makes a call in the loop, and waits for it.
func (c *rpcConn) call(ctx context.Context, request []byte) (answer []byte, err error) {
	deadline, _ := ctx.Deadline()
	ended := make(chan error, 1)
	err = c.Post(func(r *erpc.Rpc) {
		if c.session == nil {
			ended <- errNoSession
			return
		}
		b, err := r.Alloc(len(request))
		if err != nil {
			ended <- err
			return
		}
		copy(b.Data(), request)
		_, err = r.EnqueueRequest(c.session, erpc.Request{Type: reqType, Req: b,
			Timeout: time.Until(deadline), Done: func(d erpc.Completion) {
				if d.Err == nil {
					answer = append(answer, d.Resp.Data()...)
				}
				if d.Resp != nil {
					d.Resp.Free()
				}
				d.Req.Free()
				ended <- d.Err
			}})
		if err != nil {
			b.Free()
			ended <- err
		}
	})
	if err != nil {
		return nil, err
	}
	err = <-ended
	return answer, err
}

// victimName is the name of the server that moves. Clients resolve it again.
const victimName = "victim.test"

// named is the address that victimName has now.
var named atomic.Pointer[string]

// nameServers gives victimName the host of the first server.
func nameServers(servers []string) {
	if host, _, err := net.SplitHostPort(servers[0]); err == nil {
		named.Store(&host)
	}
}

// followName makes this process resolve victimName by a name server of its own, and returns the
// address with that name.
func followName(addr string) string {
	nameServers([]string{addr})
	net.DefaultResolver = &net.Resolver{PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go serveNames(far)
			return near, nil
		}}
	_, port, _ := net.SplitHostPort(addr)
	return net.JoinHostPort(victimName, port)
}

// serveNames answers one connection's questions for victimName, as over TCP.
func serveNames(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 1<<12)
	for {
		if _, err := io.ReadFull(c, buf[:2]); err != nil {
			return
		}
		n := int(buf[0])<<8 | int(buf[1])
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Authoritative = true, true
		m.Additionals = nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			ip := [4]byte(net.ParseIP(*named.Load()).To4())
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name,
				Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: ip}}}
		}
		out, err := m.Pack()
		if err != nil {
			return
		}
		if _, err := c.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...)); err != nil {
			return
		}
	}
}
