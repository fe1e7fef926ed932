package erpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// pool makes a Pool of the farm's Loop that ends with the test.
func (f *farm) pool(cfg erpc.PoolConfig) *erpc.Pool {
	f.tb.Helper()
	p, err := erpc.NewPool(cfg, f.loop)
	is(f.tb, "pool", err, nil)
	f.tb.Cleanup(func() {
		f.free()
		is(f.tb, "close the pool", p.Close(), nil)
	})
	return p
}

// poolOf is pool with the farm's servers, all ready.
func (f *farm) poolOf(choice erpc.Choice) *erpc.Pool {
	f.tb.Helper()
	var names []string
	for _, s := range f.servers {
		names = append(names, s.name)
	}
	p := f.pool(erpc.PoolConfig{Servers: names, Choice: choice})
	for _, n := range names {
		f.state(p, n, erpc.ServerReady)
	}
	return p
}

// newPool makes a farm and a Pool of its servers, which get calls by turn. It checks for leaks.
func newPool(t *testing.T, servers int) (*farm, *erpc.Pool) {
	t.Helper()
	checkLeaks(t)
	f := newFarm(t, servers)
	return f, f.poolOf(erpc.RoundRobin)
}

// state makes rounds until a server of a Pool is in a state.
func (f *farm) state(p *erpc.Pool, name string, want erpc.ServerState) {
	f.tb.Helper()
	f.until(fmt.Sprintf("%s is %v", name, want), func() bool { return stateOf(p, name) == want })
}

func stateOf(p *erpc.Pool, name string) erpc.ServerState {
	for _, s := range p.Servers() {
		if s.Addr == name {
			return s.State
		}
	}
	return 255
}

// through makes a caller of a Pool.
func through(p *erpc.Pool, o erpc.CallOptions) caller {
	return func(typ uint8, req []byte) ([]byte, error) { return p.CallWith(bg, o, nil, typ, req) }
}

var (
	plain   = erpc.CallOptions{}
	repeat  = erpc.CallOptions{Repeat: true}
	patient = erpc.CallOptions{WaitForReady: true}
)

// counts returns how many calls each server ran.
func (f *farm) counts() (n []int) {
	for _, s := range f.servers {
		n = append(n, s.count)
	}
	return n
}

func TestPoolRoundRobin(t *testing.T) {
	f, p := newPool(t, 3)
	f.all("a call", f.calls(through(p, plain), tEcho, 0, 30), 30, nil)
	f.once(0, 30)
	if n := f.counts(); !slices.Equal(n, []int{10, 10, 10}) {
		t.Errorf("the servers ran %v calls", n)
	}
}

// TestPoolLeastLoaded: a server that is slow gets fewer calls.
func TestPoolLeastLoaded(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 2)
	p := f.poolOf(erpc.LeastLoaded)
	var held chan error
	for i := range uint64(6) { // in turn, since all wait
		one := f.calls(through(p, plain), tHold, i, 1)
		if held == nil {
			held = make(chan error, 6)
		}
		go func() { held <- <-one }()
	}
	f.holds(6)
	f.servers[0].answer()
	for range 3 {
		is(t, "a call that was held", wait(f, held, "it"), nil)
	}
	before := f.servers[0].count
	for i := range uint64(3) {
		f.all("a call", f.calls(through(p, plain), tEcho, 10+i, 1), 1, nil)
	}
	if n := f.servers[0].count - before; n != 3 {
		t.Errorf("the server without calls got %d of 3", n)
	}
	f.servers[1].answer()
	for range 3 {
		is(t, "a call that was held", wait(f, held, "it"), nil)
	}
	f.once(0, 6)
}

// TestPoolNobody: without a server calls fail, or wait if they are to.
func TestPoolNobody(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 2)
	f.servers[0].die()
	f.servers[1].die()
	p := f.pool(erpc.PoolConfig{Servers: []string{"s0", "s1", "unknown"}})
	first := f.callers(through(p, plain), tEcho, 0, 5) // they wait for the first attempts
	f.all("a call", first, 5, erpc.ErrNoServer)
	for name, want := range map[string]error{"s0": erpc.ErrConnect, "unknown": erpc.ErrResolve} {
		for _, s := range p.Servers() {
			if s.Addr == name && s.State != erpc.ServerConnecting {
				is(t, name, s.Err, want)
			}
		}
	}
	f.state(p, "s0", erpc.ServerFailing)
	f.state(p, "s1", erpc.ServerFailing)
	_, err := p.Call(bg, tEcho, id(10))
	is(t, "a call", err, erpc.ErrNoServer, erpc.ErrNotRun)
	ctx, cancel := context.WithCancel(bg)
	cancelled := make(chan error, 1)
	go func() {
		_, err := p.CallWith(ctx, patient, nil, tEcho, id(20))
		cancelled <- err
	}()
	waits := f.callers(through(p, patient), tEcho, 30, 5)
	f.rounds(time.Second)
	if len(waits)+len(cancelled) > 0 {
		t.Error("calls did not wait")
	}
	cancel()
	is(t, "a call that was given up", wait(f, cancelled, "it"),
		erpc.ErrNotRun, erpc.ErrCancelled, context.Canceled)
	f.servers[1].start(f.cfg)
	f.all("a call that waited", waits, 5, nil)
	f.once(30, 5)
	is(t, "Ready", p.Ready(bg), nil)
}

// answers is a Resolver whose answers the test gives.
type answers struct {
	mu    sync.Mutex
	names []string
	err   error
	asked int
}

func (a *answers) set(err error, names ...string) {
	a.mu.Lock()
	a.names, a.err = names, err
	a.mu.Unlock()
}

func (a *answers) resolve(context.Context) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return a.names, a.err
}

func (a *answers) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// TestPoolResolves: servers come and go with the Resolver's answers. One that goes ends its calls
// first. Errors change nothing.
func TestPoolResolves(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 3)
	a := &answers{}
	a.set(errors.New("the name service is down"))
	p := f.pool(erpc.PoolConfig{Resolver: a.resolve, ResolveEvery: 5 * time.Second})
	f.all("a call", f.callers(through(p, plain), tEcho, 0, 3), 3, erpc.ErrResolve)
	a.set(nil, "s0", "s1", "s0")
	f.state(p, "s0", erpc.ServerReady)
	f.state(p, "s1", erpc.ServerReady)
	held := f.calls(through(p, plain), tHold, 10, 4)
	f.holds(4)
	a.set(nil, "s2", "s1")
	f.state(p, "s2", erpc.ServerReady)
	f.until("s0 is gone", func() bool { return stateOf(p, "s0") == 255 })
	f.all("a call", f.calls(through(p, plain), tEcho, 100, 20), 20, nil)
	if n := f.counts(); n[1] != 12 || n[2] != 10 {
		t.Errorf("the servers ran %v calls", n)
	}
	f.servers[0].answer()
	f.servers[1].answer()
	f.all("a held call", held, 4, nil)
	f.once(10, 4)
	f.rounds(time.Second)
	if n := f.loop.Clients(); n != 2 {
		t.Errorf("%d Clients are left", n)
	}
	a.set(nil) // no servers: that is an error
	asked := a.count()
	f.until("it is asked again", func() bool { return a.count() > asked+1 })
	if n := len(p.Servers()); n != 2 {
		t.Errorf("%d servers are left", n)
	}
	a.set(nil, "s0", "s1", "s2")
	f.state(p, "s0", erpc.ServerReady)
}

// TestPoolResolvesAfterFailure: the Resolver is asked when a server has failed, too.
func TestPoolResolvesAfterFailure(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 2)
	a := &answers{}
	a.set(nil, "s0")
	p := f.pool(erpc.PoolConfig{Resolver: a.resolve, ResolveEvery: 24 * time.Hour})
	f.state(p, "s0", erpc.ServerReady)
	a.set(nil, "s1")
	f.servers[0].die()
	f.state(p, "s1", erpc.ServerReady)
	f.all("a call", f.calls(through(p, plain), tEcho, 0, 5), 5, nil)
}

// TestPoolStuckResolver: a Resolver that does not return keeps nobody from closing the Pool.
func TestPoolStuckResolver(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 1)
	release := make(chan struct{})
	p := f.pool(erpc.PoolConfig{Resolver: func(context.Context) ([]string, error) {
		<-release
		return []string{"s0"}, nil
	}})
	errs := f.callers(through(p, plain), tEcho, 0, 3)
	f.rounds(time.Second)
	if len(errs) > 0 {
		t.Error("calls did not wait for the first answer")
	}
	f.free()
	is(t, "close", p.Close(), nil)
	for range 3 {
		is(t, "a call", eventually(t, errs, "a call"), erpc.ErrClosed)
	}
	close(release)
}

// TestPoolClosed: calls end with the Pool; its Loop goes on.
func TestPoolClosed(t *testing.T) {
	f, p := newPool(t, 2)
	c := f.dial("s0")
	errs := f.calls(through(p, repeat), tHold, 0, 30)
	f.holds(20)
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	is(t, "close", wait(f, closed, "Close"), nil)
	f.all("a call", errs, 30, erpc.ErrClosed)
	_, err := p.Call(bg, tEcho, id(1))
	is(t, "a call after Close", err, erpc.ErrClosed, erpc.ErrNotRun)
	is(t, "Ready after Close", p.Ready(bg), erpc.ErrClosed)
	f.all("a call of another Client", f.calls(of(c), tEcho, 100, 5), 5, nil)
	f.rounds(time.Second)
	if n := f.loop.Clients(); n != 1 || len(p.Servers()) != 0 {
		t.Errorf("%d Clients and %d servers are left", n, len(p.Servers()))
	}
}

// TestPoolLoopClosed: a Pool whose Loop is closed has no servers.
func TestPoolLoopClosed(t *testing.T) {
	f, p := newPool(t, 2)
	errs := f.hold(through(p, repeat), 10)
	f.free()
	is(t, "close the loop", f.loop.Close(), nil)
	for range 10 {
		is(t, "a call", eventually(t, errs, "a call"), erpc.ErrClosed)
	}
	_, err := p.Call(bg, tEcho, id(1))
	is(t, "a call", err, erpc.ErrNoServer, erpc.ErrNotRun)
	_, err = erpc.NewPool(erpc.PoolConfig{Servers: []string{"s0"}}, f.loop)
	is(t, "a pool on it", err, erpc.ErrClosed)
}

func TestNewPoolFails(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 0)
	names := []string{"s0"}
	for name, cfg := range map[string]erpc.PoolConfig{
		"nothing": {},
		"both":    {Servers: names, Resolver: new(answers).resolve},
		"time":    {Servers: names, ResolveEvery: -1},
		"choice":  {Servers: names, Choice: 7},
	} {
		if _, err := erpc.NewPool(cfg, f.loop); !errors.Is(err, erpc.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := erpc.NewPool(erpc.PoolConfig{Servers: names})
	is(t, "no loop", err, erpc.ErrConfig)
}

// TestPoolSpares: spares get calls as preferred servers fail, none before, and none again when
// those are back. SetServers changes both at run time.
func TestPoolSpares(t *testing.T) {
	checkLeaks(t)
	f := newFarm(t, 5)
	p := f.pool(erpc.PoolConfig{Servers: []string{"s0", "s1"}})
	is(t, "servers", p.SetServers([]string{"s0", "s1", "s2"}, []string{"s2", "s3", "s4"}), nil)
	for _, s := range f.servers {
		f.state(p, s.name, erpc.ServerReady)
	}
	var id uint64
	ran := func(what string, want ...int) {
		t.Helper()
		before := f.counts()
		for range 4 { // 256 calls in all, and no more of them at a time than a session takes
			f.all("a call", f.calls(through(p, plain), tEcho, id, 64), 64, nil)
			id += 64
		}
		after := f.counts()
		for i, n := range after {
			if got := n - before[i]; got < want[i]-3 || got > want[i]+3 {
				t.Errorf("%s: server %d ran %d of 256 calls, want %d", what, i, got, want[i])
			}
		}
	}
	ran("all are ready", 85, 85, 85, 0, 0)
	f.servers[0].die()
	f.state(p, "s0", erpc.ServerEjected)
	ran("two of three", 0, 119, 119, 9, 9) // 1.4 times 85
	f.servers[1].die()
	f.state(p, "s1", erpc.ServerEjected)
	ran("one of three", 0, 0, 119, 69, 69)
	f.servers[2].die()
	f.state(p, "s2", erpc.ServerEjected)
	ran("none", 0, 0, 0, 128, 128)
	for _, s := range f.servers[:3] {
		s.start(f.cfg)
		f.state(p, s.name, erpc.ServerReady)
	}
	ran("all are back", 85, 85, 85, 0, 0)
	is(t, "the spares", p.SetServers([]string{"s3"}, []string{"s4"}), nil)
	f.until("three have gone", func() bool { return len(p.Servers()) == 2 })
	ran("one that was a spare", 0, 0, 0, 256, 0)
	is(t, "no servers", p.SetServers(nil, []string{"s3"}), erpc.ErrConfig)
}
