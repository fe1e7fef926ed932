package erpc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// typeCount answers with the request, whose first eight bytes name it.
const typeCount = 77

// loopServer is a server with several loops, and clients that call it.
type loopServer struct {
	*erpc.Server
	addr    string
	ended   chan error
	mu      sync.Mutex
	ran     map[uint64]int       // handlers run by request
	loopOf  map[uint64]*erpc.Rpc // of each request
	clients []*erpc.Client
	next    atomic.Uint64
}

// newLoopServer serves on transports of one address.
func newLoopServer(t *testing.T, trs []transport.Transport) *loopServer {
	t.Helper()
	checkLeaks(t)
	srv, err := erpc.NewServer(erpc.Config{})
	is(t, "server", err, nil)
	s := &loopServer{
		Server: srv, addr: trs[0].LocalAddr().String(), ended: make(chan error, 1),
		ran: map[uint64]int{}, loopOf: map[uint64]*erpc.Rpc{},
	}
	is(t, "handle", s.HandleInline(typeCount, func(h erpc.ReqHandle) {
		number := binary.LittleEndian.Uint64(h.Data())
		s.mu.Lock()
		s.ran[number]++
		s.loopOf[number] = h.Rpc()
		s.mu.Unlock()
		is(t, "respond", h.RespondBytes(h.Data()), nil)
	}), nil)
	go func() { s.ended <- s.ServeGroup(trs) }()
	return s
}

// group opens a group of sockets.
func group(t *testing.T, n int) (trs []transport.Transport) {
	t.Helper()
	conns, err := udp.ListenGroup("127.0.0.1:0", n, udp.Config{})
	is(t, "listen", err, nil)
	for _, c := range conns {
		trs = append(trs, c)
	}
	return trs
}

// where makes one call, and returns the loop that served it.
func (s *loopServer) where(t *testing.T, c *erpc.Client) *erpc.Rpc {
	t.Helper()
	number := s.next.Load() + 1 // nobody else calls
	is(t, "call", s.call(c, 0), nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loopOf[number]
}

// call makes one call, and checks the answer.
func (s *loopServer) call(c *erpc.Client, size int) error {
	ctx, cancel := context.WithTimeout(bg, hang)
	defer cancel()
	number := s.next.Add(1)
	req := pattern(int(number), 8+size)
	binary.LittleEndian.PutUint64(req, number)
	got, err := c.Call(ctx, typeCount, req)
	if err == nil && string(got) != string(req) {
		err = fmt.Errorf("request %d of %d bytes: the answer differs", number, len(req))
	}
	return err
}

// spread dials clients until each of n loops has served one.
func (s *loopServer) spread(t *testing.T, n int) {
	t.Helper()
	for range 200 {
		c := dial(t, s.addr, erpc.Config{})
		is(t, "call", s.call(c, 0), nil)
		s.clients = append(s.clients, c)
		if loops := s.used(); len(loops) == n && len(s.clients) >= 2*n {
			return
		}
	}
	t.Fatalf("200 clients have reached %d loops of %d", len(s.used()), n)
}

// used returns the loops that clients have reached, with how many.
func (s *loopServer) used() map[*erpc.Rpc]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := map[*erpc.Rpc]int{}
	for _, r := range s.loopOf {
		used[r]++
	}
	return used
}

// traffic makes n calls with each client, of all sizes, and returns how many failed at each.
func (s *loopServer) traffic(n int) []int {
	failed := make([]int, len(s.clients))
	var all sync.WaitGroup
	for i, c := range s.clients {
		all.Go(func() {
			for j := range n {
				if s.call(c, j*j*7%9000) != nil {
					failed[i]++
				}
			}
		})
	}
	all.Wait()
	return failed
}

// once checks that no request ran twice, and returns how many ran.
func (s *loopServer) once(t *testing.T) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, n := range s.ran {
		if n != 1 {
			t.Errorf("request %d ran %d times", number, n)
		}
	}
	return len(s.ran)
}

// stop closes the server.
func (s *loopServer) stop(t *testing.T) error {
	t.Helper()
	is(t, "shutdown", s.Shutdown(bg), nil)
	return eventually(t, s.ended, "ServeGroup returns")
}

// TestServeGroup: several loops on one address are one server. All of them work, and the kernel
// gives each what is its own.
func TestServeGroup(t *testing.T) {
	s := newLoopServer(t, group(t, 3))
	s.spread(t, 3)
	for i, n := range s.traffic(60) {
		if n > 0 {
			t.Errorf("client %d: %d calls failed", i, n)
		}
	}
	want := len(s.clients) * 61
	if got := s.once(t); got != want {
		t.Errorf("%d requests ran, want %d", got, want)
	}
	if a := s.Addrs(); len(a) != 1 || a[0].String() != s.addr {
		t.Errorf("addresses %v, want %v", a, s.addr)
	}
	is(t, "end", s.stop(t), erpc.ErrClosed)
	var served uint64
	for i, st := range s.Stats() {
		served += st.RequestsServed
		if st.RequestsServed == 0 || st.DropNoLoop+st.DropHandover > 0 || st.HandedOver > 0 {
			t.Errorf("loop %d: %s", i+1, brief(st))
		}
	}
	if served != uint64(want) {
		t.Errorf("%d requests were counted, want %d", served, want)
	}
}

// TestServeGroupUnsteered: sockets of which the kernel knows no loop. Packets come to any of them
// and are handed over; every call gets its answer.
func TestServeGroupUnsteered(t *testing.T) {
	var trs []transport.Transport
	addr := "127.0.0.1:0"
	for range 3 {
		c, err := udp.Listen(addr, udp.Config{ReusePort: true})
		is(t, "listen", err, nil)
		trs, addr = append(trs, c), c.LocalAddr().String()
	}
	s := newLoopServer(t, trs)
	s.spread(t, 3)
	for len(s.clients) < 14 { // a client comes to its own loop one time in three: 2e-7 that all do
		c := dial(t, s.addr, erpc.Config{})
		is(t, "call", s.call(c, 0), nil)
		s.clients = append(s.clients, c)
	}
	for i, n := range s.traffic(60) {
		if n > 0 {
			t.Errorf("client %d: %d calls failed", i, n)
		}
	}
	if got, want := s.once(t), len(s.clients)*61; got != want {
		t.Errorf("%d requests ran, want %d", got, want)
	}
	is(t, "end", s.stop(t), erpc.ErrClosed)
	var over, in uint64
	for _, st := range s.Stats() {
		over, in = over+st.HandedOver, in+st.HandedIn
	}
	if over == 0 || in > over {
		t.Errorf("%d packets were handed over, %d taken", over, in)
	}
}

// breaking is a transport that fails on command.
type breaking struct {
	transport.Transport
	broken atomic.Bool
}

var errBroken = errors.New("the card is gone")

func (b *breaking) RxBurst(pkts []transport.RxPacket) (int, error) {
	if b.broken.Load() {
		return 0, errBroken
	}
	return b.Transport.RxBurst(pkts)
}

func (b *breaking) TxBurst(items []transport.TxItem) (int, error) {
	if b.broken.Load() {
		return 0, errBroken
	}
	return b.Transport.TxBurst(items)
}

// TestServeGroupLoopFails: a loop's transport fails under load. No call of other loops' sessions
// fails, no request runs twice, and the loop's clients come to the others.
func TestServeGroupLoopFails(t *testing.T) {
	trs := group(t, 3)
	bad := &breaking{Transport: trs[0]} // the kernel's numbers change with it
	trs[0] = bad
	s := newLoopServer(t, trs)
	s.spread(t, 3)
	victim := make([]bool, len(s.clients))
	before := make([]*erpc.Rpc, len(s.clients))
	for i, c := range s.clients {
		before[i] = s.where(t, c)
		victim[i] = before[i].Serves(bad)
	}
	done := make(chan []int)
	go func() { done <- s.traffic(400) }()
	for s.next.Load() < uint64(len(s.clients)*50) {
		runtime.Gosched() // the load goes on
	}
	bad.broken.Store(true)
	bad.Wake()
	for i, n := range <-done {
		if n > 0 && !victim[i] {
			t.Errorf("client %d of another loop: %d calls failed", i, n)
		}
	}
	for i, c := range s.clients {
		now := s.where(t, c)
		if now.Serves(bad) || !victim[i] && now != before[i] {
			t.Errorf("client %d has moved, or is with a loop that has ended", i)
		}
	}
	s.once(t)
	is(t, "end", s.stop(t), errBroken)
}

// TestServeGroupRefused: bad transports are refused, and so are all by a server that is closed.
func TestServeGroupRefused(t *testing.T) {
	checkLeaks(t)
	s, err := erpc.NewServer(erpc.Config{})
	is(t, "server", err, nil)
	var bad *erpc.ConfigError
	if err := s.ServeGroup(nil); !errors.As(err, &bad) {
		t.Errorf("no transport: %v", err)
	}
	if err := s.ServeGroup(append(group(t, 2), listen(t, "127.0.0.1:0"))); !errors.As(err, &bad) {
		t.Errorf("two addresses: %v", err)
	}
	if len(s.Addrs()) != 0 {
		t.Errorf("it serves %v", s.Addrs())
	}
	is(t, "close", s.Close(), nil)
	is(t, "closed", s.ServeGroup(group(t, 2)), erpc.ErrClosed)
}
