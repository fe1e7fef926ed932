package erpc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// farm is a Loop whose passes the test makes, in virtual time, and servers with names, stepped by
// hand.
type farm struct {
	tb      testing.TB
	net     *memNet
	end     *farmEnd
	loop    *erpc.Loop
	cfg     erpc.Config
	servers []*farmServer
	starts  uint64
	tick    time.Duration
	free    func() // lets the loop run on its own
}

// farmEnd is the Loop's transport. It resolves the names of servers.
type farmEnd struct {
	*gatedEnd
	mu     sync.Mutex
	names  map[string]transport.Addr
	slow   map[string]chan struct{} // names whose lookups wait
	looked map[string]int
	many   map[string][]transport.Addr // names with several addresses, in the order to try
	closed map[transport.Addr]bool     // packets to there come back
	said   []transport.Hint
	tried  map[transport.Addr]int // packets sent
	began  erpc.Time              // when the first one left since it was 0
}

// Addrs returns what names with several addresses have.
func (e *farmEnd) Addrs(name string) []transport.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.many[name]
}

// TxBurst sends packets, and those to closed ports come back.
func (e *farmEnd) TxBurst(items []transport.TxItem) (int, error) {
	for i := range items {
		it := &items[i]
		e.tried[it.Dst]++
		if e.began == 0 {
			e.began = e.net.now
		}
		if e.closed[it.Dst] {
			q := append(bytes.Clone(it.Head), it.Data...)
			e.said = append(e.said, transport.Hint{Kind: transport.HintUnreachable, To: it.Dst,
				Quoted: q[:min(len(q), transport.QuotedMax)]})
		}
	}
	return e.gatedEnd.TxBurst(items)
}

// Hints returns what came back.
func (e *farmEnd) Hints(hints []transport.Hint) int {
	n := copy(hints, e.said)
	e.said = e.said[n:]
	return n
}

func (e *farmEnd) Resolve(name string) (transport.Addr, error) {
	e.mu.Lock()
	e.looked[name]++
	wait := e.slow[name]
	e.mu.Unlock()
	if wait != nil {
		<-wait
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	to, ok := e.names[name]
	if !ok {
		return to, fmt.Errorf("%w: no %s", transport.ErrBadAddress, name)
	}
	return to, nil
}

// farmServer is one server. Requests begin with an id of 8 bytes.
type farmServer struct {
	f       *farm
	name    string
	end     *memEnd
	nexus   *erpc.Nexus
	rpc     *erpc.Rpc // nil: it is dead
	mute    bool      // it does not run
	deaf    bool      // background handlers are refused: there is no room
	count   int
	tasks   []erpc.Task
	refused int            // background handlers
	runs    map[uint64]int // how often each id ran
	held    []erpc.ReqHandle
}

// newFarm makes a farm. Change, if there is one, changes the Loop's configuration alone.
func newFarm(tb testing.TB, servers int, change ...func(erpc.Config) erpc.Config) *farm {
	tb.Helper()
	net := newMemNet()
	net.tb = tb
	f := &farm{tb: tb, net: net, tick: 200 * time.Microsecond}
	f.end = &farmEnd{
		gatedEnd: &gatedEnd{
			memEnd: net.end(true), parked: make(chan struct{}), resume: make(chan struct{}),
			woken: make(chan struct{}, 1), over: make(chan struct{}),
		},
		names: map[string]transport.Addr{}, slow: map[string]chan struct{}{}, looked: map[string]int{},
		many: map[string][]transport.Addr{}, closed: map[transport.Addr]bool{},
		tried: map[transport.Addr]int{},
	}
	f.cfg = erpc.Config{Wait: erpc.WaitSleep, Simulation: erpc.Simulation{Clock: net.Now, Seed: 7}}
	for i := range servers {
		s := &farmServer{f: f, name: fmt.Sprintf("s%d", i), end: net.end(true), runs: map[uint64]int{}}
		f.end.names[s.name] = s.end.addr
		f.servers = append(f.servers, s)
		s.start(f.cfg)
	}
	cfg := f.cfg
	for _, c := range change {
		cfg = c(cfg)
	}
	var err error
	f.loop, err = erpc.NewLoop(f.end, cfg)
	is(tb, "loop", err, nil)
	<-f.end.parked
	f.free = sync.OnceFunc(func() { close(f.end.over) })
	tb.Cleanup(func() {
		f.free()
		is(tb, "close the loop", f.loop.Close(), nil)
		for _, s := range f.servers {
			s.die()
		}
	})
	return f
}

// start makes the server live, as a new process at the old address if it has lived before.
func (s *farmServer) start(cfg erpc.Config) {
	s.f.starts++
	cfg.Simulation.Executor, cfg.Simulation.Seed = s, 100+s.f.starts // another process
	n, err := erpc.NewNexus(cfg)
	is(s.f.tb, "nexus", err, nil)
	echo := func(h erpc.ReqHandle) {
		s.ran(h)
		_ = h.RespondBytes(h.Data())
	}
	is(s.f.tb, "register", n.Register(tEcho, erpc.Dispatch, echo), nil)
	is(s.f.tb, "register", n.Register(tHold, erpc.Dispatch, func(h erpc.ReqHandle) {
		s.ran(h)
		s.held = append(s.held, h)
	}), nil)
	is(s.f.tb, "register", n.Register(tHuge, erpc.Dispatch, func(h erpc.ReqHandle) {
		s.ran(h)
		_ = h.RespondError(fmt.Errorf("the handler: %w", erpc.ErrExhausted))
	}), nil)
	is(s.f.tb, "register", n.Register(tBackground, erpc.Background, func(h erpc.ReqHandle) {
		s.ran(h)
		_ = h.RespondBytes(h.Data())
	}), nil)
	s.end = &memEnd{
		net: s.f.net, addr: s.end.addr, checked: true, memFaults: new(memFaults),
	}
	s.f.net.ends[s.end.addr.Port-1] = s.end
	s.nexus = n
	s.rpc, err = n.NewRpc(s.end)
	is(s.f.tb, "server", err, nil)
	s.held = nil
}

// Submit makes the server its own executor.
func (s *farmServer) Submit(t erpc.Task) bool {
	if s.deaf {
		s.refused++
	} else {
		s.tasks = append(s.tasks, t)
	}
	return !s.deaf
}

func (s *farmServer) ran(h erpc.ReqHandle) {
	s.count++
	s.runs[binary.LittleEndian.Uint64(h.Data())]++
}

// die ends the server without a word.
func (s *farmServer) die() {
	if s.rpc == nil {
		return
	}
	s.f.net.ends[s.end.addr.Port-1] = &memEnd{
		net: s.f.net, addr: s.end.addr, memFaults: new(memFaults),
	}
	s.end.net = &memNet{tb: s.f.tb} // its packets go nowhere
	is(s.f.tb, "close a server", errors.Join(s.rpc.Close(), s.nexus.Close()), nil)
	s.rpc = nil
}

// answer answers what was held.
func (s *farmServer) answer() {
	for _, h := range s.held {
		_ = h.RespondBytes(h.Data())
	}
	s.held = nil
}

// round makes a pass of the Loop and one of each server.
func (f *farm) round() {
	f.net.now = f.net.now.Add(f.tick)
	f.end.resume <- struct{}{}
	<-f.end.parked
	f.lookups()
	for _, s := range f.servers {
		if s.rpc == nil || s.mute {
			continue
		}
		if _, err := s.rpc.RunOnce(); err != nil {
			f.tb.Fatal(err)
		}
		for _, t := range s.tasks {
			t.Run()
		}
		s.tasks = s.tasks[:0]
	}
}

// lookups waits until those that take no time have come to the loop.
func (f *farm) lookups() {
	for f.loop.Posted() == 0 && slices.ContainsFunc(f.loop.Lookups(), f.end.quick) {
		runtime.Gosched()
	}
}

// quick reports whether a name's lookup takes no time.
func (e *farmEnd) quick(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.slow[name] == nil
}

// until makes rounds until cond holds.
func (f *farm) until(what string, cond func() bool) {
	f.tb.Helper()
	for end := f.net.now.Add(10 * time.Minute); !cond(); f.round() {
		runtime.Gosched()
		if f.net.now > end {
			f.tb.Fatalf("it never happened: %s", what)
		}
	}
}

// rounds makes rounds for a span of virtual time, larger ones if it is long.
func (f *farm) rounds(d time.Duration) {
	if d >= time.Second && f.tick < 2*time.Millisecond {
		defer func(tick time.Duration) { f.tick = tick }(f.tick)
		f.tick = 2 * time.Millisecond
	}
	for end := f.net.now.Add(d); f.net.now < end; {
		f.round()
	}
}

// wait makes rounds until something comes out of a channel.
func wait[T any](f *farm, ch chan T, what string) (v T) {
	f.tb.Helper()
	f.until(what, func() bool {
		select {
		case v = <-ch:
			return true
		default:
			return false
		}
	})
	return v
}

// dial dials a server.
func (f *farm) dial(name string) *erpc.Client {
	f.tb.Helper()
	dialed := make(chan *erpc.Client, 1)
	go func() {
		c, err := f.loop.Dial(bg, name)
		is(f.tb, "dial "+name, err, nil)
		dialed <- c
	}()
	return wait(f, dialed, "dial "+name)
}

// id is a request.
func id(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// caller makes a call.
type caller func(typ uint8, req []byte) ([]byte, error)

// of makes a caller of a Client.
func of(c *erpc.Client) caller {
	return func(typ uint8, req []byte) ([]byte, error) { return c.Call(bg, typ, req) }
}

// calls makes n calls at once, with ids from first on, and returns the channel of their errors when
// all of them have come to the loop.
func (f *farm) calls(call caller, typ uint8, first uint64, n int) chan error {
	f.tb.Helper()
	before := f.loop.Posted()
	errs := f.callers(call, typ, first, n)
	for f.loop.Posted() < before+n {
		runtime.Gosched()
	}
	return errs
}

// callers is calls without waiting.
func (f *farm) callers(call caller, typ uint8, first uint64, n int) chan error {
	errs := make(chan error, n)
	for i := range uint64(n) {
		go func() {
			got, err := call(typ, id(first+i))
			if err == nil && string(got) != string(id(first+i)) {
				err = fmt.Errorf("a foreign answer: %x", got)
			}
			errs <- err
		}()
	}
	return errs
}

// all takes the errors of n calls; each must match want.
func (f *farm) all(what string, errs chan error, n int, want error) {
	f.tb.Helper()
	for range n {
		is(f.tb, what, wait(f, errs, what), want)
	}
}

// holds makes rounds until the servers hold n requests.
func (f *farm) holds(n int) {
	f.tb.Helper()
	f.until("held requests", func() bool {
		held := 0
		for _, s := range f.servers {
			held += len(s.held)
		}
		return held >= n
	})
}

// hold makes n calls, with ids from 0 on, and waits until the servers hold all of them.
func (f *farm) hold(call caller, n int) chan error {
	f.tb.Helper()
	errs := f.calls(call, tHold, 0, n)
	f.holds(n)
	return errs
}

// answer answers the requests that the servers hold.
func (f *farm) answer() {
	for _, s := range f.servers {
		s.answer()
	}
}

// once checks that each of the ids from first on ran once, on whichever server.
func (f *farm) once(first uint64, n int) {
	f.tb.Helper()
	for i := first; i < first+uint64(n); i++ {
		runs := 0
		for _, s := range f.servers {
			runs += s.runs[i]
		}
		if runs != 1 {
			f.tb.Errorf("request %d ran %d times", i, runs)
		}
	}
}
