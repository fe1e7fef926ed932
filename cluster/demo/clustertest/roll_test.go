package clustertest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/cluster/etcd"
	"github.com/userspace-rpc/erpc/erpc"
)

// member is a server that is registered.
type member struct {
	name, addr string
	server     *erpc.Server
	reg        *etcd.Registration
}

func newMember(t *testing.T, c *clientv3.Client, name, zone string) *member {
	t.Helper()
	addr, s := serve(t, name)
	reg := register(t, c, config(), cluster.Entry{Addr: addr, Name: name, Zone: zone})
	return &member{name, addr, s, reg}
}

// leave ends a server as an operator does: its entry goes, then it drains.
func (m *member) leave(ctx context.Context, t *testing.T) {
	t.Helper()
	must(t, m.reg.Close(ctx))
	must(t, m.server.Shutdown(ctx))
}

// ready waits until a Pool has these servers ready, of those that get calls, and no others.
func ready(ctx context.Context, t *testing.T, p *cluster.Pool, list []*member) {
	t.Helper()
	for ctx.Err() == nil {
		n := 0
		for _, s := range p.Servers() {
			if s.State == erpc.ServerReady {
				n++
				if !slices.ContainsFunc(list, func(m *member) bool { return m.addr == s.Addr }) {
					n = math.MinInt
				}
			}
		}
		if n == len(list) {
			return
		}
		_, err := p.CallWith(ctx, erpc.CallOptions{Repeat: true}, nil, 1, nil)
		must(t, err)
	}
	t.Fatalf("the servers are not ready: %v", p.Servers())
}

// evenly makes calls, and checks that each of these servers answers its part, within a tenth, and
// that nobody else answers.
func evenly(ctx context.Context, t *testing.T, p *cluster.Pool, what string, list []*member) {
	t.Helper()
	count := map[string]int{}
	part := 100
	for range part * len(list) {
		who, err := p.CallWith(ctx, erpc.CallOptions{Repeat: true}, nil, 1, nil)
		must(t, err)
		count[string(who)]++
	}
	for _, m := range list {
		if n := count[m.name]; n < part*9/10 || n > part*11/10 {
			t.Errorf("%s: %s has answered %d calls of %d, its part is %d", what, m.name, n,
				part*len(list), part)
		}
		delete(count, m.name)
	}
	if len(count) > 0 {
		t.Errorf("%s: others have answered: %v", what, count)
	}
}

// callers make calls that may be repeated until stop is called, which returns how many. One that
// fails fails the test.
func callers(ctx context.Context, t *testing.T, p *cluster.Pool) (stop func() int64) {
	var calls atomic.Int64
	var over atomic.Bool
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for !over.Load() {
				_, err := p.CallWith(ctx, erpc.CallOptions{Repeat: true}, nil, 1, nil)
				if err != nil {
					t.Errorf("call %d: %v", calls.Load(), err)
					return
				}
				calls.Add(1)
			}
		})
	}
	return func() int64 {
		over.Store(true)
		work.Wait()
		return calls.Load()
	}
}

// TestRoll: ten servers are replaced one by one under load, and then one more comes. No call is
// lost, and load is even.
func TestRoll(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	var list []*member
	for i := range 10 {
		list = append(list, newMember(t, c, fmt.Sprintf("web-%d", i), ""))
	}
	names := resolve(t, c, config(), cluster.Config{})
	p, err := names.Pool(ctx, erpc.PoolConfig{}, loop(t))
	must(t, err)
	defer func() { _ = p.Close() }()
	ready(ctx, t, p, list)
	stop := callers(ctx, t, p)
	for i, old := range list {
		list[i] = newMember(t, c, fmt.Sprintf("new-%d", i), "")
		old.leave(ctx, t)
	}
	ready(ctx, t, p, list)
	list = append(list, newMember(t, c, "added", ""))
	ready(ctx, t, p, list)
	if n := stop(); n < 100 {
		t.Errorf("%d calls in all that time", n)
	}
	evenly(ctx, t, p, "after a rolling restart", list)
}

// TestZoneLost: the client's zone is lost, calls spill over to the other one, evenly, and return
// with the first servers that are back.
func TestZoneLost(t *testing.T) {
	ctx := within(t)
	c := startNode(t).client()
	var zones [2][]*member
	for i := range 8 {
		zones[i%2] = append(zones[i%2], newMember(t, c, fmt.Sprintf("web-%d", i), string(rune('a'+i%2))))
	}
	names := resolve(t, c, config(), cluster.Config{Zone: "a"})
	p, err := names.Pool(ctx, erpc.PoolConfig{}, loop(t))
	must(t, err)
	defer func() { _ = p.Close() }()
	ready(ctx, t, p, slices.Concat(zones[0], zones[1]))
	evenly(ctx, t, p, "in the zone", zones[0])
	for _, m := range zones[0] {
		must(t, m.server.Close()) // the registrations stay, as after a death
	}
	ready(ctx, t, p, zones[1])
	evenly(ctx, t, p, "the zone is lost", zones[1])
	for i := range zones[0] {
		must(t, zones[0][i].reg.Close(ctx))
		zones[0][i] = newMember(t, c, fmt.Sprintf("back-%d", i), "a")
	}
	ready(ctx, t, p, slices.Concat(zones[0], zones[1]))
	evenly(ctx, t, p, "the zone is back", zones[0])
}
