package erpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// ofItsOwn is a configuration of which each Client has a Loop.
var ofItsOwn = erpc.Config{MaxSessions: 1 << 10}

const typeWho = 200

// whoServer serves typeWho, which answers with the caller's address.
func whoServer(t *testing.T, cfg erpc.Config) string {
	s, err := erpc.NewServer(cfg)
	is(t, "a server", err, nil)
	err = s.Handle(typeWho, func(ctx context.Context, _ []byte) ([]byte, error) {
		r, _ := erpc.HandleFrom(ctx)
		return []byte(r.Peer().String()), nil
	})
	is(t, "handle", err, nil)
	conn := listen(t, "127.0.0.1:0")
	var served sync.WaitGroup
	served.Go(func() { is(t, "serve", s.Serve(conn), erpc.ErrClosed) })
	t.Cleanup(func() {
		is(t, "close the server", s.Close(), nil)
		served.Wait()
	})
	return conn.LocalAddr().String()
}

// from dials and returns the address that the server sees. The Client stays until the test ends.
func from(
	t *testing.T, tr transport.Transport, addr string, cfg erpc.Config,
) (*erpc.Client, string) {
	t.Helper()
	c, err := erpc.Dial(t.Context(), tr, addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { is(t, "close", c.Close(), nil) })
	who, err := c.Call(t.Context(), typeWho, nil)
	is(t, "call", err, nil)
	return c, string(who)
}

// fill dials until there is a Client on each Loop that Dial shares, and returns the Loops'
// addresses.
func fill(t *testing.T, addr string, cfg erpc.Config) (loops []string) {
	t.Helper()
	for range runtime.GOMAXPROCS(0) {
		_, who := from(t, listen(t, "127.0.0.1:0"), addr, cfg)
		loops = append(loops, who)
	}
	return loops
}

// TestDialShares: Clients share GOMAXPROCS Loops if nothing tells their transports and
// configurations apart, and no Loop else.
func TestDialShares(t *testing.T) {
	ca := sectest.NewCA("ours")
	server := ca.Config("127.0.0.1", "")
	client := &tls.Config{RootCAs: ca.Pool, Certificates: server.Certificates}
	log := slog.New(slog.DiscardHandler)
	key := func() [][]byte { return [][]byte{slices.Clone(testPSK[0])} }
	for _, c := range []struct {
		name          string
		server        erpc.Config
		first, second erpc.Config
		shared        bool
	}{
		{"defaults", erpc.Config{}, erpc.Config{}, erpc.Config{}, true},
		{"equal", erpc.Config{}, erpc.Config{Slots: 4}, erpc.Config{Slots: 4}, true},
		{"unequal", erpc.Config{}, erpc.Config{Slots: 4}, erpc.Config{Slots: 2}, false},
		{"keys", erpc.Config{PSK: key()}, erpc.Config{PSK: key()}, erpc.Config{PSK: key()}, true},
		{"TLS", erpc.Config{TLS: server}, erpc.Config{TLS: client}, erpc.Config{TLS: client}, true},
		{"a copy of TLS", erpc.Config{TLS: server}, erpc.Config{TLS: client},
			erpc.Config{TLS: client.Clone()}, false},
		{"Keyring", erpc.Config{TLS: server}, erpc.Config{TLS: client, Keyring: new(erpc.Keyring)},
			erpc.Config{TLS: client, Keyring: new(erpc.Keyring)}, false},
		{"Logger", erpc.Config{}, erpc.Config{Logger: log}, erpc.Config{Logger: log}, true},
		{"another Logger", erpc.Config{}, erpc.Config{Logger: log},
			erpc.Config{Logger: slog.New(slog.DiscardHandler)}, false},
		{"a limit", erpc.Config{}, ofItsOwn, ofItsOwn, false},
		{"spins", erpc.Config{}, erpc.Config{Wait: erpc.WaitSpin},
			erpc.Config{Wait: erpc.WaitSpin}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkLeaks(t)
			addr := whoServer(t, c.server)
			loops := fill(t, addr, c.first)
			if slices.Sort(loops); len(slices.Compact(slices.Clone(loops))) < len(loops) {
				t.Errorf("Clients that could have a Loop each are on %q", loops)
			}
			tr := listen(t, "127.0.0.1:0")
			_, who := from(t, tr, addr, c.second)
			if got := slices.Contains(loops, who); got != c.shared {
				t.Errorf("a Client at %s, others at %q: shared %v, want %v", who, loops, got, c.shared)
			}
			if c.shared {
				is(t, "a transport that nobody uses", tr.Wait(0), transport.ErrClosed)
			}
			is(t, "the transport for another", second(erpc.NewLoop(tr, erpc.Config{})),
				erpc.ErrTransportInUse)
		})
	}
}

// TestDialSharesNoDecorator: what is decorated stays a Client's own, and so does a port.
func TestDialSharesNoDecorator(t *testing.T) {
	checkLeaks(t)
	addr := whoServer(t, erpc.Config{})
	loops := fill(t, addr, erpc.Config{})
	free := listen(t, "127.0.0.1:0")
	port := free.LocalAddr().String()
	is(t, "close", free.Close(), nil)
	for name, tr := range map[string]transport.Transport{
		"decorated": &struct{ transport.Transport }{listen(t, "127.0.0.1:0")},
		"embedded":  &struct{ *udp.Conn }{listen(t, "127.0.0.1:0")},
		"port":      listen(t, port),
		"host":      listen(t, "0.0.0.0:0"),
	} {
		if _, who := from(t, tr, addr, erpc.Config{}); slices.Contains(loops, who) {
			t.Errorf("%s: on a Loop of others", name)
		}
	}
}

// alike is a socket that is like all others with the same name.
type alike struct {
	*udp.Conn
	name   string
	broken atomic.Bool
	send   func() // before each TxBurst, if not nil
	closed chan struct{}
	once   sync.Once
}

func newAlike(t *testing.T, name string) *alike {
	return &alike{Conn: listen(t, "127.0.0.1:0"), name: t.Name() + name, closed: make(chan struct{})}
}

var errTorn = errors.New("broken")

func (a *alike) Kind(transport.Transport) any { return a.name }

// Detach returns the same, but as another transport.
func (a *alike) Detach() transport.Transport { return &struct{ *alike }{a} }

func (a *alike) RxBurst(p []transport.RxPacket) (int, error) {
	if a.broken.Load() {
		return 0, errTorn
	}
	return a.Conn.RxBurst(p)
}

func (a *alike) TxBurst(items []transport.TxItem) (int, error) {
	if a.send != nil {
		a.send()
	}
	return a.Conn.TxBurst(items)
}

func (a *alike) Close() error {
	a.once.Do(func() { close(a.closed) })
	return a.Conn.Close()
}

// TestSharedLoopEnds: a Loop stays for a Client that comes soon after the last one, and ends within
// a second when none does.
func TestSharedLoopEnds(t *testing.T) {
	checkLeaks(t)
	addr := whoServer(t, erpc.Config{})
	tr := newAlike(t, "")
	c, first := from(t, tr, addr, erpc.Config{})
	is(t, "close", c.Close(), nil)
	c, second := from(t, newAlike(t, ""), addr, erpc.Config{})
	if first != second {
		t.Errorf("a Client at %s, the next one at %s", first, second)
	}
	is(t, "close", errors.Join(c.Close(), c.Close()), nil)
	select {
	case <-tr.closed:
	case <-time.After(time.Second):
		t.Error("the Loop has not ended within a second of its last Client")
	}
}

// TestSharedLoopsUnused: of many Loops without Clients, as a tls.Config for each Client leaves
// them, the oldest end at once.
func TestSharedLoopsUnused(t *testing.T) {
	checkLeaks(t)
	addr := whoServer(t, erpc.Config{})
	var last []*alike
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		tr := newAlike(t, name)
		c, _ := from(t, tr, addr, erpc.Config{})
		is(t, "close", c.Close(), nil)
		if last = append(last, tr); len(last) > 5 {
			select {
			case <-last[len(last)-6].closed:
			default:
				t.Error("more than five Loops wait for Clients")
			}
		}
	}
}

// TestSharedLoopFails: a transport that fails ends the calls of its Clients, and the next Dial
// makes another Loop.
func TestSharedLoopFails(t *testing.T) {
	checkLeaks(t)
	addr := whoServer(t, erpc.Config{})
	for range 3 {
		tr := newAlike(t, "")
		c, _ := from(t, tr, addr, erpc.Config{})
		tr.broken.Store(true)
		_, err := c.Call(t.Context(), typeWho, nil)
		is(t, "a call", err, erpc.ErrClosed)
		<-tr.closed
	}
}

// TestCloseOfShared: who closes the transport that he gave to Dial, when his Client is closed, ends
// no Client of others that share it.
func TestCloseOfShared(t *testing.T) {
	checkLeaks(t)
	addr := whoServer(t, erpc.Config{})
	var trs []*udp.Conn
	var clients []*erpc.Client
	for range 4 * runtime.GOMAXPROCS(0) {
		tr := listen(t, "127.0.0.1:0")
		c, err := erpc.Dial(t.Context(), tr, addr, erpc.Config{})
		is(t, "dial", err, nil)
		trs, clients = append(trs, tr), append(clients, c)
	}
	for len(clients) > 1 {
		is(t, "close", errors.Join(clients[0].Close(), trs[0].Close(), trs[0].Close()), nil)
		clients, trs = clients[1:], trs[1:]
		for _, c := range clients {
			_, err := c.Call(t.Context(), typeWho, nil)
			is(t, "a call of another", err, nil)
		}
	}
	is(t, "close", errors.Join(clients[0].Close(), trs[0].Close()), nil)
}

// TestKeysAreCopied: the keys of an endpoint stay what they were when it was made, whatever their
// memory is used for later.
func TestKeysAreCopied(t *testing.T) {
	checkLeaks(t)
	key := bytes.Repeat([]byte{7}, 32)
	mine := [][]byte{bytes.Clone(key)}
	addr := whoServer(t, erpc.Config{PSK: mine})
	clear(mine[0])
	clear(mine)
	theirs := [][]byte{bytes.Clone(key)}
	c, err := erpc.Dial(t.Context(), listen(t, "127.0.0.1:0"), addr, erpc.Config{PSK: theirs})
	is(t, "a dial by the server's key", err, nil)
	clear(theirs[0])
	is(t, "close", c.Close(), nil)
	zeros := whoServer(t, erpc.Config{PSK: [][]byte{make([]byte, 32)}})
	for name, psk := range map[string][]byte{addr: make([]byte, 32), zeros: bytes.Clone(key)} {
		cfg := erpc.Config{PSK: [][]byte{psk}}
		_, err = erpc.Dial(t.Context(), listen(t, "127.0.0.1:0"), name, cfg)
		is(t, "a dial by another key", err, erpc.ErrRefused)
	}
}

// TestDialPassesStuckLoop: a callback keeps a Loop. Clients that come meanwhile do not wait for it.
func TestDialPassesStuckLoop(t *testing.T) {
	checkLeaks(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	addr := whoServer(t, erpc.Config{})
	stuck, _ := from(t, listen(t, "127.0.0.1:0"), addr, erpc.Config{})
	for range runtime.GOMAXPROCS(0) - 1 { // the other Loops have as many Clients
		from(t, listen(t, "127.0.0.1:0"), addr, erpc.Config{})
	}
	begun, release := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	t.Cleanup(goOn) // before the Clients are closed
	is(t, "start", stuck.Start(typeWho, nil, func([]byte, error) {
		close(begun)
		<-release
	}), nil)
	eventually(t, begun, "the callback")
	for !stuck.Stuck() {
		runtime.Gosched()
	}
	dialed := make(chan error, 1)
	for range 4 * runtime.GOMAXPROCS(0) {
		go func() {
			c, err := erpc.Dial(bg, listen(t, "127.0.0.1:0"), addr, erpc.Config{})
			if err == nil {
				_, err = c.Call(bg, typeWho, nil)
				err = errors.Join(err, c.Close())
			}
			dialed <- err
		}()
		is(t, "dial, call, close", eventually(t, dialed, "a Client"), nil)
	}
}

// TestDialWhileLoopsEnd: Clients come while the last ones of their Loop go.
func TestDialWhileLoopsEnd(t *testing.T) {
	checkLeaks(t)
	addr := whoServer(t, erpc.Config{})
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for range 50 {
				c, err := erpc.Dial(t.Context(), listen(t, "127.0.0.1:0"), addr, erpc.Config{})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = c.Call(t.Context(), typeWho, nil)
				is(t, "call and close", errors.Join(err, c.Close()), nil)
			}
		})
	}
	callers.Wait()
}

// TestCloseTells: the server has been told when Close returns, since the process may end then.
func TestCloseTells(t *testing.T) {
	checkLeaks(t)
	addr := whoServer(t, erpc.Config{})
	tr := newAlike(t, "")
	var closing, early atomic.Bool
	returned := make(chan struct{})
	tr.send = func() {
		if !closing.Swap(false) { // the first packet after Close began counts
			return
		}
		select {
		case <-returned:
			early.Store(true)
		case <-time.After(20 * time.Millisecond): // Close waits for this
		}
	}
	c, _ := from(t, tr, addr, erpc.Config{})
	closing.Store(true)
	is(t, "close", c.Close(), nil)
	close(returned)
	<-tr.closed // no packet leaves any more
	if early.Load() {
		t.Error("Close has returned before a packet left")
	}
}
