package clustertest

import (
	"context"
	"errors"
	"regexp"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/erpc"
)

// TestKeys: what stands in etcd while servers are registered, and that nothing does afterwards.
func TestKeys(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	both := register(t, c, config(), cluster.Entry{Addr: "10.0.0.1:31850", Name: "web-0", Zone: "a",
		Identity: "web.prod.example", Load: 0.25,
		Transports: map[string]string{"grpc": "10.0.0.1:31850", "udp": "10.0.0.1:31850"}})
	other := register(t, c, config(), cluster.Entry{Addr: "10.0.0.2:31850", Zone: "a"})
	want := [][2]string{
		{"erpc/v1/numbers/web/a/1", "web-0"},
		{"erpc/v1/numbers/web/a/2", other.Entry().Instance},
		{"erpc/v1/servers/web/10.0.0.2:31850", `{"Op":0,"Addr":"10.0.0.2:31850","Metadata":{"erpc":1,` +
			`"cluster":"prod","instance":"I","zone":"a","number":2}}`},
		{"web/10.0.0.1:31850", `{"Op":0,"Addr":"10.0.0.1:31850","Metadata":{"erpc":1,` +
			`"cluster":"prod","name":"web-0","instance":"I","identity":"web.prod.example","zone":"a",` +
			`"number":1,"load":0.25,"transports":{"grpc":"10.0.0.1:31850","udp":"10.0.0.1:31850"}}}`},
	}
	resp, err := c.Get(ctx, "", clientv3.WithPrefix())
	must(t, err)
	if len(resp.Kvs) != len(want) {
		t.Fatalf("%d keys: %v", len(resp.Kvs), resp.Kvs)
	}
	instance := regexp.MustCompile(`"instance":"[0-9a-f]{16}"`)
	for i, kv := range resp.Kvs {
		value := instance.ReplaceAllString(string(kv.Value), `"instance":"I"`)
		if string(kv.Key) != want[i][0] || value != want[i][1] {
			t.Errorf("%s has %s\nwant %s: %s", kv.Key, value, want[i][0], want[i][1])
		}
		if kv.Lease == 0 {
			t.Errorf("%s has no lease", kv.Key)
		}
	}
	must(t, both.Close(ctx))
	must(t, other.Close(ctx))
	resp, err = c.Get(ctx, "", clientv3.WithPrefix())
	must(t, err)
	if len(resp.Kvs) != 0 {
		t.Errorf("after Close there are %v", resp.Kvs)
	}
	if err := both.Err(); !errors.Is(err, cluster.ErrClosed) || both.Held() || both.Serving() != nil {
		t.Errorf("after Close: %v, held %v, serving %v", err, both.Held(), both.Serving())
	}
}

// TestPoolFollows: calls go to servers as they come and go.
func TestPoolFollows(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	names := resolve(t, c, config(), cluster.Config{})
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := names.Ready(short); !errors.Is(err, cluster.ErrNoServers) {
		t.Errorf("without servers: %v", err)
	}
	addr, _ := serve(t, "first")
	first := register(t, c, config(), cluster.Entry{Addr: addr})
	p, err := names.Pool(ctx, erpc.PoolConfig{}, loop(t))
	must(t, err)
	defer func() { _ = p.Close() }()
	calls := func(want string) {
		t.Helper()
		for {
			got, err := p.CallWith(ctx, erpc.CallOptions{WaitForReady: true}, nil, 1, nil)
			must(t, err)
			if string(got) == want {
				return
			}
		}
	}
	calls("first")
	addr, _ = serve(t, "second")
	register(t, c, config(), cluster.Entry{Addr: addr})
	calls("second")
	must(t, first.Close(ctx))
	if left, err := c.Get(ctx, "erpc/v1/servers/", clientv3.WithPrefix()); left.Count != 1 {
		t.Errorf("%d entries right after one of two was closed, %v", left.Count, err)
	}
	has(t, names, "the first has gone", addr)
	for len(p.Servers()) != 1 {
		calls("second")
	}
	client, err := names.Dial(ctx, loop(t))
	must(t, err)
	got, err := client.Call(ctx, 1, nil)
	if must(t, err); string(got) != "second" {
		t.Errorf("a dialed client is at %q", got)
	}
}

// TestDeath: the entry of a server whose process has died goes with its lease.
func TestDeath(t *testing.T) {
	n := startNode(t)
	names := resolve(t, n.client(), config(), cluster.Config{})
	register(t, n.client(), config(), cluster.Entry{Addr: "10.0.0.1:1"})
	path := newProxy(t, n.addr)
	register(t, n.client(path.addr()), config(), cluster.Entry{Addr: "10.0.0.2:1"})
	has(t, names, "both", "10.0.0.1:1", "10.0.0.2:1")
	path.pass(false)
	has(t, names, "one has died", "10.0.0.1:1")
	path.pass(true)
	has(t, names, "it is back", "10.0.0.1:1", "10.0.0.2:1")
}

// TestCompacted: a watch that was down while etcd compacted its revision comes back with the right
// view, and the view is kept meanwhile.
func TestCompacted(t *testing.T) {
	ctx := within(t)
	n := startNode(t)
	direct := n.client()
	path := newProxy(t, n.addr)
	names := resolve(t, n.client(path.addr()), config(), cluster.Config{})
	first := register(t, direct, config(), cluster.Entry{Addr: "10.0.0.1:1"})
	has(t, names, "the first", "10.0.0.1:1")
	path.pass(false)
	until(t, names, "etcd is away", func(v cluster.View) bool {
		return errors.Is(v.Err, cluster.ErrUnavailable) && len(v.Entries) == 1
	})
	must(t, first.Close(ctx))
	register(t, direct, config(), cluster.Entry{Addr: "10.0.0.2:1"})
	resp, err := direct.Put(ctx, "other", "x")
	must(t, err)
	_, err = direct.Compact(ctx, resp.Header.Revision, clientv3.WithCompactPhysical())
	must(t, err)
	if v := names.View(); len(v.Entries) != 1 || v.Entries[0].Addr != "10.0.0.1:1" {
		t.Errorf("the view was not kept: %v", v)
	}
	path.pass(true)
	has(t, names, "the second", "10.0.0.2:1")
	until(t, names, "etcd is back", func(v cluster.View) bool { return v.Err == nil })
}

// TestStopped: no call fails while etcd is away, and registrations and views are right when it is
// back.
func TestStopped(t *testing.T) {
	ctx := within(t)
	n := startNode(t)
	c := n.client()
	first, names, p := pooled(t, c)
	n.stop()
	for calls := 0; names.View().Err == nil || first.Held() || calls < 1000; calls++ {
		if _, err := p.Call(ctx, 1, nil); err != nil {
			t.Fatalf("while etcd is away: %v", err)
		}
		if err := first.Serving(); err != nil {
			t.Fatalf("while etcd is away: %v", err)
		}
	}
	n.start()
	second, _ := serve(t, "second")
	register(t, c, config(), cluster.Entry{Addr: second})
	has(t, names, "both", first.Entry().Addr, second)
	for !first.Held() {
		_, err := p.Call(ctx, 1, nil)
		must(t, err)
	}
}
