package clustertest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/cluster/etcd"
)

// problems collects what a Resolver is told.
type problems struct {
	mu   sync.Mutex
	list []error
}

func (p *problems) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, err)
}

func (p *problems) has(want error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, err := range p.list {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// TestStrangers: entries of strangers, of other versions and of other clusters are named, and hide
// no other.
func TestStrangers(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	var told problems
	names := resolve(t, c, config(), cluster.Config{OnProblem: told.add})
	for key, value := range map[string]string{
		"web/10.0.0.9:1":                 "no JSON",
		"erpc/v1/servers/web/10.0.0.8:1": `{"Op":0,"Addr":"10.0.0.8:1","Metadata":{"erpc":2}}`,
		"erpc/v1/servers/web/10.0.0.7:1": `{"Op":0,"Addr":"10.0.0.7:1","Metadata":` +
			`{"erpc":1,"instance":"x","cluster":"test"}}`,
		"erpc/v1/servers/web/10.0.0.6:1": `{"Op":0,"Addr":"10.0.0.5:1","Metadata":` +
			`{"erpc":1,"instance":"x","cluster":"prod"}}`,
		"web/other/10.0.0.4:1": `{"Op":0,"Addr":"10.0.0.4:1"}`,
		"web/stock":            `{"Op":0,"Addr":"10.0.0.3:1"}`,
	} {
		_, err := c.Put(ctx, key, value)
		must(t, err)
	}
	register(t, c, config(), cluster.Entry{Addr: "10.0.0.1:1"})
	has(t, names, "one of us and a stock gRPC server", "10.0.0.1:1", "10.0.0.3:1")
	for _, want := range []error{cluster.ErrEntry, cluster.ErrEntryVersion, cluster.ErrOtherCluster} {
		if !told.has(want) {
			t.Errorf("nobody was told of %v", want)
		}
	}
	if got := names.Choice().Preferred; len(got) != 1 {
		t.Errorf("over UDP there are %v", got)
	}
}

// TestTwoClaims: of two servers that claim one address the second is refused, unless it is a later
// process of the first one's name; then that one ends.
func TestTwoClaims(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	first := register(t, c, config(), cluster.Entry{Addr: "10.0.0.1:1", Name: "web-0"})
	for _, name := range []string{"", "web-1"} {
		_, err := etcd.Register(ctx, c, config(), cluster.Entry{Addr: "10.0.0.1:1", Name: name})
		if !errors.Is(err, cluster.ErrAddressTaken) {
			t.Errorf("%q at the address of web-0: %v", name, err)
		}
	}
	register(t, c, config(), cluster.Entry{Addr: "10.0.0.2:1"})
	both := map[string]string{"udp": "10.0.0.2:1", "grpc": "10.0.0.2:1"}
	for _, transports := range []map[string]string{nil, both} {
		_, err := etcd.Register(ctx, c, config(),
			cluster.Entry{Addr: "10.0.0.2:1", Transports: transports})
		if !errors.Is(err, cluster.ErrAddressTaken) {
			t.Errorf("two servers without names, the second serves %v: %v", transports, err)
		}
	}
	register(t, c, config(), cluster.Entry{Addr: "10.0.0.3:1", Name: "web-3"})
	register(t, c, config(), cluster.Entry{Addr: "10.0.0.3:1", Name: "web-3",
		Transports: map[string]string{"grpc": "10.0.0.3:1"}})
	resp, err := c.Get(ctx, "erpc/v1/servers/web/10.0.0.3:1")
	if must(t, err); resp.Count != 0 {
		t.Error("an entry of before stands beside that of a process that serves gRPC too")
	}
	later := register(t, c, config(), cluster.Entry{Addr: "10.0.0.1:1", Name: "web-0"})
	if later.Held() {
		t.Error("the later process is held at once")
	}
	<-first.Done()
	if err := first.Err(); !errors.Is(err, cluster.ErrReplaced) || first.Held() ||
		!errors.Is(first.Serving(), cluster.ErrReplaced) {
		t.Errorf("the first process: %v, held %v, serving %v", err, first.Held(), first.Serving())
	}
	if n := later.Entry().Number; n != 1 {
		t.Errorf("the later process has the number %d", n)
	}
}

// TestDeleted: an entry that somebody deletes is written again.
func TestDeleted(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	names := resolve(t, c, config(), cluster.Config{})
	register(t, c, config(), cluster.Entry{Addr: "10.0.0.1:1"})
	has(t, names, "the entry", "10.0.0.1:1")
	_, err := c.Delete(ctx, "erpc/v1/servers/", clientv3.WithPrefix())
	must(t, err)
	has(t, names, "it is deleted")
	has(t, names, "it is back", "10.0.0.1:1")
}

// TestDataLost: an etcd that comes back without its data, as the same cluster, and has had more
// changes than before when a client reaches it. The client sees what stands there now.
func TestDataLost(t *testing.T) {
	ctx := within(t)
	n := startNode(t)
	cfg := config()
	cfg.Probe = time.Hour
	names := resolve(t, n.client(), cfg, cluster.Config{})
	for _, addr := range []string{"10.0.0.1:1", "10.0.0.2:1"} {
		_, err := n.client().Put(ctx, "web/"+addr, `{"Op":0,"Addr":"`+addr+`"}`)
		must(t, err)
	}
	has(t, names, "those of before", "10.0.0.1:1", "10.0.0.2:1")
	id := n.etcd.Server.Cluster().ID()
	n.stop()
	must(t, os.RemoveAll(n.cfg.Dir))
	n.start()
	if n.etcd.Server.Cluster().ID() != id {
		t.Fatal("it is another cluster")
	}
	c := n.client()
	for _, addr := range []string{"10.0.0.3:1", "10.0.0.2:1", "10.0.0.2:1", "10.0.0.2:1"} {
		_, err := c.Put(ctx, "web/"+addr, `{"Op":0,"Addr":"`+addr+`"}`)
		must(t, err)
	}
	has(t, names, "those of now", "10.0.0.2:1", "10.0.0.3:1")
}

// TestWrongEtcd: another etcd than the one that is meant.
func TestWrongEtcd(t *testing.T) {
	ctx := within(t)
	n := startNode(t)
	c := n.client()
	cfg := config()
	cfg.EtcdID = uint64(n.etcd.Server.Cluster().ID()) + 1
	_, err := etcd.Register(ctx, c, cfg, cluster.Entry{Addr: "10.0.0.1:1"})
	if !errors.Is(err, cluster.ErrWrongEtcd) {
		t.Errorf("register: %v", err)
	}
	names := resolve(t, c, cfg, cluster.Config{})
	until(t, names, "the error", func(v cluster.View) bool {
		return errors.Is(v.Err, cluster.ErrWrongEtcd)
	})
	cfg.EtcdID--
	register(t, c, cfg, cluster.Entry{Addr: "10.0.0.1:1"})
}

// TestAuth: an etcd that wants a user.
func TestAuth(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	_, err := c.UserAdd(ctx, "root", "secret")
	must(t, err)
	_, err = c.RoleAdd(ctx, "root")
	must(t, err)
	_, err = c.UserGrantRole(ctx, "root", "root")
	must(t, err)
	_, err = c.AuthEnable(ctx)
	must(t, err)
	_, err = etcd.Register(ctx, c, config(), cluster.Entry{Addr: "10.0.0.1:1"})
	if !errors.Is(err, cluster.ErrAuth) {
		t.Errorf("register: %v", err)
	}
	names := resolve(t, c, config(), cluster.Config{})
	until(t, names, "the error", func(v cluster.View) bool {
		return errors.Is(v.Err, cluster.ErrAuth)
	})
}

// TestTLS: an etcd that speaks TLS, and a client that does not.
func TestTLS(t *testing.T) {
	n := startNode(t, func(c *embed.Config) {
		c.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
		c.ClientAutoTLS = true
	})
	c := n.client()
	ctx, cancel := context.WithTimeout(within(t), 2*time.Second)
	defer cancel()
	_, err := etcd.Register(ctx, c, config(), cluster.Entry{Addr: "10.0.0.1:1"})
	if !errors.Is(err, cluster.ErrTLS) {
		t.Errorf("register: %v", err)
	}
	names := resolve(t, c, config(), cluster.Config{})
	until(t, names, "the error", func(v cluster.View) bool { return errors.Is(v.Err, cluster.ErrTLS) })
}
