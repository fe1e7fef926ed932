package clustertest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/cluster/etcd"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// within returns a context for the whole test.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node is an etcd that can be stopped and started again, with its data, at its address.
type node struct {
	t    testing.TB
	cfg  *embed.Config
	etcd *embed.Etcd
	addr string
}

// startNode starts an etcd of one member.
func startNode(t testing.TB, change ...func(*embed.Config)) *node {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel, cfg.LogOutputs = t.TempDir(), "fatal", []string{"stderr"}
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = free, free
	cfg.UnsafeNoFsync = true // the disk is not what is tested
	cfg.TickMs, cfg.ElectionMs = 20, 100
	for _, f := range change {
		f(cfg)
	}
	n := &node{t: t, cfg: cfg}
	n.start()
	t.Cleanup(n.stop)
	return n
}

// start starts it, the first time at an address of its own.
func (n *node) start() {
	n.t.Helper()
	e, err := embed.StartEtcd(n.cfg)
	must(n.t, err)
	select {
	case <-e.Server.ReadyNotify():
	case <-within(n.t).Done():
		n.t.Fatal("etcd does not begin")
	}
	n.etcd, n.addr = e, e.Clients[0].Addr().String()
	n.cfg.ListenClientUrls = []url.URL{{Scheme: n.cfg.ListenClientUrls[0].Scheme, Host: n.addr}}
}

func (n *node) stop() {
	if n.etcd != nil {
		n.etcd.Close()
		n.etcd = nil
	}
}

// client returns a client of it, or of another address.
func (n *node) client(at ...string) *clientv3.Client {
	n.t.Helper()
	if len(at) == 0 {
		at = []string{n.addr}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: at, Logger: zap.NewNop(),
		DialTimeout: time.Second, BackoffWaitBetween: 5 * time.Millisecond})
	must(n.t, err)
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// proxy is a TCP proxy to an address that can be cut.
type proxy struct {
	listener net.Listener
	to       string
	gate     chan bool // holds whether connections pass
	conns    chan []net.Conn
}

func newProxy(t testing.TB, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: l, to: to, gate: make(chan bool, 1), conns: make(chan []net.Conn, 1)}
	p.gate <- true
	p.conns <- nil
	t.Cleanup(func() { _ = l.Close(); p.pass(false) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.join(c)
		}
	}()
	return p
}

// join connects c to the other side, if that is allowed.
func (p *proxy) join(c net.Conn) {
	open := <-p.gate
	defer func() { p.gate <- open }()
	if !open {
		_ = c.Close()
		return
	}
	d, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = c.Close()
		return
	}
	p.conns <- append(<-p.conns, c, d)
	for _, pair := range [][2]net.Conn{{c, d}, {d, c}} {
		go func() {
			buf := make([]byte, 32<<10)
			for {
				n, err := pair[0].Read(buf)
				if n > 0 {
					if _, err := pair[1].Write(buf[:n]); err != nil {
						break
					}
				}
				if err != nil {
					break
				}
			}
			_ = pair[0].Close()
			_ = pair[1].Close()
		}()
	}
}

// pass lets connections pass, or cuts them.
func (p *proxy) pass(open bool) {
	<-p.gate
	if !open {
		for _, c := range <-p.conns {
			_ = c.Close()
		}
		p.conns <- nil
	}
	p.gate <- open
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// config is that of the service of most tests.
func config() etcd.Config {
	return etcd.Config{Service: "web", Cluster: "prod", TTL: 2 * time.Second,
		Probe: 100 * time.Millisecond}
}

// serve runs a server that answers with its name, and returns its address.
func serve(t testing.TB, name string) (string, *erpc.Server) {
	t.Helper()
	s, err := erpc.NewServer(erpc.Config{})
	must(t, err)
	must(t, s.Handle(1, func(context.Context, []byte) ([]byte, error) { return []byte(name), nil }))
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	must(t, err)
	addr := tr.LocalAddr().String()
	go func() { _ = s.Serve(tr) }()
	t.Cleanup(func() { _ = s.Close() })
	return addr, s
}

// loop returns a Loop for clients.
func loop(t testing.TB) *erpc.Loop {
	t.Helper()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	must(t, err)
	l, err := erpc.NewLoop(tr, erpc.Config{})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// register registers an entry until the test ends.
func register(
	t testing.TB, c *clientv3.Client, cfg etcd.Config, e cluster.Entry,
) *etcd.Registration {
	t.Helper()
	r, err := etcd.Register(within(t), c, cfg, e)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.Close(ctx)
	})
	return r
}

// tryRegister tries to register a server within a second.
func tryRegister(
	ctx context.Context, c *clientv3.Client, addr string,
) (*etcd.Registration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return etcd.Register(ctx, c, config(), cluster.Entry{Addr: addr})
}

// resolve returns a Resolver of the service.
func resolve(
	t testing.TB, c *clientv3.Client, cfg etcd.Config, to cluster.Config,
) *cluster.Resolver {
	t.Helper()
	s, err := etcd.NewSource(c, cfg)
	must(t, err)
	r, err := cluster.NewResolver(s, to)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// until waits for a view.
func until(
	t testing.TB, r *cluster.Resolver, what string, ok func(cluster.View) bool,
) cluster.View {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	var last cluster.View
	_ = r.Follow(ctx, func(v cluster.View, _ cluster.Choice) {
		if last = v; ok(v) {
			cancel()
		}
	})
	if !ok(last) {
		t.Fatalf("%s: not seen; the last view is %v", what, last)
	}
	return last
}

// has waits until a view has these addresses and no others.
func has(t testing.TB, r *cluster.Resolver, what string, addrs ...string) {
	t.Helper()
	slices.Sort(addrs)
	until(t, r, fmt.Sprintf("%s: %s", what, strings.Join(addrs, " ")), func(v cluster.View) bool {
		var have []string
		for _, e := range v.Entries {
			have = append(have, e.Addr)
		}
		return slices.Equal(have, addrs)
	})
}

// pooled registers a server, and returns a Pool that has it.
func pooled(
	t *testing.T, c *clientv3.Client,
) (*etcd.Registration, *cluster.Resolver, *cluster.Pool) {
	t.Helper()
	addr, _ := serve(t, "first")
	reg := register(t, c, config(), cluster.Entry{Addr: addr})
	names := resolve(t, c, config(), cluster.Config{})
	p, err := names.Pool(within(t), erpc.PoolConfig{}, loop(t))
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	must(t, p.Ready(within(t)))
	return reg, names, p
}
