//go:build linux

package shm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
)

// hang bounds what must happen; only a test that hangs waits so long.
const hang = 60 * time.Second

func TestMain(m *testing.M) {
	if r := os.Getenv(roleEnv); r != "" {
		child(r)
		return
	}
	goleak.VerifyTestMain(m)
}

// within calls f until it returns true.
func within(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, hang)
		}
	}
}

// receive returns the next packet of c.
func receive(t testing.TB, c *Conn) (pkt transport.RxPacket) {
	t.Helper()
	pkts := make([]transport.RxPacket, 1)
	within(t, "a packet", func() bool {
		n, err := c.RxBurst(pkts)
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	return pkts[0]
}

// send sends one packet.
func send(t testing.TB, c *Conn, to transport.Addr, text string) {
	t.Helper()
	items := []transport.TxItem{{Dst: to, Head: []byte(text)}}
	within(t, "sending", func() bool {
		n, err := c.TxBurst(items)
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
}

// exchange sends a packet each way.
func exchange(t testing.TB, a, b *Conn) {
	t.Helper()
	send(t, a, b.LocalAddr(), "ping")
	p := receive(t, b)
	if string(p.Data) != "ping" || p.From != a.LocalAddr() {
		t.Fatalf("received %q from %v", p.Data, p.From)
	}
	send(t, b, p.From, "pong")
	if p = receive(t, a); string(p.Data) != "pong" || p.From != b.LocalAddr() {
		t.Fatalf("received %q from %v", p.Data, p.From)
	}
}

func TestNames(t *testing.T) {
	cfg := meeting(t, Config{})
	a := listen(t, "shm:server.1", cfg)
	if _, err := Listen("server.1", cfg); !errors.Is(err, ErrNameInUse) {
		t.Errorf("a second endpoint of the name: %v, want ErrNameInUse", err)
	}
	b := listen(t, "", cfg)
	for _, text := range []string{"server.1", "shm:server.1", a.LocalAddr().String()} {
		if to, err := b.Resolve(text); err != nil || to != a.LocalAddr() {
			t.Errorf("Resolve(%q) = %v, %v", text, to, err)
		}
	}
	for _, text := range []string{"nobody", newAddr().String()} {
		if _, err := b.Resolve(text); !errors.Is(err, ErrNoEndpoint) {
			t.Errorf("Resolve(%q): %v, want ErrNoEndpoint", text, err)
		}
	}
	exchange(t, b, a)
	old := a.LocalAddr()
	a.Close()
	if _, err := b.Resolve("server.1"); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("the name of a closed endpoint: %v, want ErrNoEndpoint", err)
	}
	again := listen(t, "server.1", cfg)
	if again.LocalAddr() == old {
		t.Error("another endpoint has the same address")
	}
	if _, err := b.Resolve("server.1"); err != nil {
		t.Fatal(err)
	}
	exchange(t, b, again)
	within(t, "forgetting the old one", func() bool { _, _ = b.RxBurst(nil); return b.Peers() == 1 })
	for _, name := range []string{"a/b", "..x/", strings.Repeat("a", 65), old.String(), "shm:shm:x"} {
		if _, err := Listen(name, cfg); !errors.Is(err, transport.ErrBadAddress) {
			t.Errorf("Listen(%q): %v, want ErrBadAddress", name, err)
		}
	}
	// "." and ".." are names like others.
	dots := listen(t, "..", cfg)
	if to, err := b.Resolve("shm:.."); err != nil || to != dots.LocalAddr() {
		t.Errorf("Resolve of \"..\" = %v, %v", to, err)
	}
}

func TestAddrs(t *testing.T) {
	for range 1000 {
		a := newAddr()
		got, err := parse(a.String())
		if err != nil || got.addr != a || got.name != "" {
			t.Fatalf("%v comes back as %v, %v", a, got, err)
		}
		if back, ok := addrOfFile(fileOf(a)); !ok || back != a {
			t.Fatalf("%v comes back from its file as %v", a, back)
		}
	}
	for _, name := range []string{"", "i-", "i-00", "x", "i-" + strings.Repeat("0", 28),
		"i-" + strings.Repeat("F", 28)} {
		if a, ok := addrOfFile(name); ok {
			t.Errorf("%q is the file of %v", name, a)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, x := range []struct {
		field string
		cfg   Config
	}{
		{"MTU", Config{MTU: 63}}, {"MTU", Config{MTU: -1}}, {"MTU", Config{MTU: 1 << 20}},
		{"Ring", Config{Ring: 4096}}, {"Ring", Config{Ring: 3 << 20}}, {"Ring", Config{Ring: -1}},
		{"Ring", Config{Ring: shmem.MaxRing + 64}},
		{"MaxPeers", Config{MaxPeers: -1}}, {"MaxMemory", Config{MaxMemory: 1 << 20}},
		{"AllowOtherUsers", Config{AllowOtherUsers: true}},
	} {
		var e *ConfigError
		if _, err := Listen("", x.cfg); !errors.As(err, &e) || e.Field != x.field {
			t.Errorf("%+v: %v, want an error about %s", x.cfg, err, x.field)
		}
	}
	for mtu := MinMTU; mtu <= MaxMTU; mtu += 997 {
		if _, err := (Config{MTU: mtu}).complete(); err != nil {
			t.Fatalf("MTU %d: %v", mtu, err)
		}
	}
}

func TestDirectory(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("", Config{Dir: open}); !errors.Is(err, ErrDirectory) {
		t.Errorf("a directory that others can read: %v, want ErrDirectory", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(meeting(t, Config{}).Dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("", Config{Dir: link}); err == nil {
		t.Error("a symbolic link: no error")
	}
	if os.Getuid() == 0 {
		other := filepath.Join(t.TempDir(), "other")
		if err := errors.Join(os.Mkdir(other, 0o700), os.Chown(other, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen("", Config{Dir: other}); !errors.Is(err, ErrDirectory) {
			t.Errorf("somebody else's directory: %v, want ErrDirectory", err)
		}
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("", Config{Dir: open, AllowOtherUsers: true}); !errors.Is(err, ErrDirectory) {
		t.Errorf("a directory where others can write: %v, want ErrDirectory", err)
	}
	// A long path does not fit a socket's address.
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	a, b := listen(t, "a", Config{Dir: long}), listen(t, "", Config{Dir: long})
	if _, err := b.Resolve("a"); err != nil {
		t.Fatal(err)
	}
	exchange(t, a, b)
}

// TestStale: files of a process that was killed are in nobody's way.
func TestStale(t *testing.T) {
	cfg := meeting(t, Config{})
	a := listen(t, "", cfg) // makes the directory
	dead := newAddr()
	l, err := net.ListenUnix("unixpacket", a.hub.dir.socket(fileOf(dead)))
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := os.Symlink(fileOf(dead), filepath.Join(cfg.Dir, namePrefix+"name")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Resolve("name"); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("Resolve of a dead name: %v, want ErrNoEndpoint", err)
	}
	b := listen(t, "name", cfg)
	if to, err := a.Resolve("name"); err != nil || to != b.LocalAddr() {
		t.Fatalf("Resolve = %v, %v", to, err)
	}
	if _, err := os.Lstat(filepath.Join(cfg.Dir, fileOf(dead))); !errors.Is(err, os.ErrNotExist) {
		t.Error("the dead socket is still there")
	}
}

// TestBothConnect lets two endpoints connect to each other at the same time, often. Both
// end up with one connection, and it works.
func TestBothConnect(t *testing.T) {
	cfg := meeting(t, Config{Ring: 64 << 10, MTU: 4000})
	for range 100 {
		a, b := listen(t, "a", cfg), listen(t, "b", cfg)
		errs := make(chan error, 2)
		go func() { _, err := a.Resolve("b"); errs <- err }()
		go func() { _, err := b.Resolve("a"); errs <- err }()
		for range 2 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		exchange(t, a, b)
		exchange(t, b, a)
		if a.Peers() != 1 || b.Peers() != 1 {
			t.Fatalf("%d and %d connections, want one each", a.Peers(), b.Peers())
		}
		a.Close()
		b.Close()
	}
}

func TestLimits(t *testing.T) {
	cfg := meeting(t, Config{Ring: 64 << 10, MTU: 4000})
	few := cfg
	few.MaxPeers = 2
	server := listen(t, "server", few)
	little := cfg
	little.MaxMemory = peerMemory(cfg.Ring) + 1
	small := listen(t, "small", little)
	var clients []*Conn
	for i := range 3 {
		c := listen(t, "", cfg)
		clients = append(clients, c)
		if _, err := c.Resolve("server"); i < 2 && err != nil || i == 2 && !errors.Is(err, ErrRefused) {
			t.Fatalf("client %d: %v", i, err)
		}
		if _, err := c.Resolve("small"); i < 1 && err != nil || i >= 1 && !errors.Is(err, ErrRefused) {
			t.Fatalf("client %d: %v", i, err)
		}
	}
	if _, err := server.Resolve("small"); !errors.Is(err, ErrLimit) {
		t.Errorf("one connection more than allowed: %v, want ErrLimit", err)
	}
	clients[0].Close()
	within(t, "room", func() bool { _, _ = small.RxBurst(nil); return small.Peers() == 0 })
	if _, err := clients[1].Resolve("small"); err != nil {
		t.Errorf("after a peer has gone: %v", err)
	}
}

// TestManyPeers: each of hundreds of peers, most of them idle, is heard and answered.
func TestManyPeers(t *testing.T) {
	const peers = 300
	cfg := meeting(t, Config{Ring: 16 << 10, MTU: 1000, MaxPeers: 2 * peers})
	server := listen(t, "server", cfg)
	var clients []*Conn
	for range peers {
		c := listen(t, "", cfg)
		clients = append(clients, c)
		if _, err := c.Resolve("server"); err != nil {
			t.Fatal(err)
		}
	}
	none := make([]transport.RxPacket, 1)
	for range 2 * quietPolls { // they are quiet for long
		if n, err := server.RxBurst(none); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	if server.Peers() != peers || server.rx.busy != alwaysPolled {
		t.Errorf("%d peers, %d polled always", server.Peers(), server.rx.busy)
	}
	for i, c := range clients {
		if i%3 == 0 {
			exchange(t, c, server)
			continue
		}
		send(t, c, server.LocalAddr(), fmt.Sprint(i))
		if p := receive(t, server); string(p.Data) != fmt.Sprint(i) || p.From != c.LocalAddr() {
			t.Fatalf("client %d: %q from %v", i, p.Data, p.From)
		}
	}
	clients = append(clients[:7], clients[8:]...)
	for i, c := range clients {
		if i%2 == 0 {
			c.Close()
		}
	}
	within(t, "half of them leave", func() bool {
		_, _ = server.RxBurst(make([]transport.RxPacket, 64))
		return server.Peers() <= peers/2+1
	})
	for i, c := range clients {
		if i%2 == 1 {
			send(t, c, server.LocalAddr(), "still here")
			p := receive(t, server)
			if p.From != c.LocalAddr() || string(p.Data) != "still here" {
				t.Fatalf("%q from %v", p.Data, p.From)
			}
		}
	}
}

// TestCorruptRing: a peer that writes nonsense loses its connection, nobody else does.
func TestCorruptRing(t *testing.T) {
	cfg := meeting(t, Config{})
	a, bad, good := listen(t, "a", cfg), listen(t, "bad", cfg), listen(t, "good", cfg)
	for _, c := range []*Conn{bad, good} {
		if _, err := c.Resolve("a"); err != nil {
			t.Fatal(err)
		}
		exchange(t, c, a)
	}
	p := bad.peers.get(&a.local)
	for i := shmem.BellSize; i < len(p.pair); i++ {
		p.pair[i] = 0xAB
	}
	within(t, "the end of the connection", func() bool {
		_, _ = a.RxBurst(make([]transport.RxPacket, 8))
		return a.Peers() == 1
	})
	if n := a.Stats().RxDropped; n != 1 {
		t.Errorf("RxDropped = %d, want 1", n)
	}
	exchange(t, good, a)
	within(t, "the other side to notice", func() bool {
		_, _ = bad.RxBurst(make([]transport.RxPacket, 8))
		return bad.Peers() == 0
	})
	if _, err := bad.Resolve("a"); err != nil { // a new connection is a new chance
		t.Fatal(err)
	}
	send(t, bad, a.LocalAddr(), "sorry")
	if p := receive(t, a); string(p.Data) != "sorry" {
		t.Errorf("received %q", p.Data)
	}
}

// TestWakeStress: packets and wake-ups from both sides; no wake-up may be lost.
func TestWakeStress(t *testing.T) {
	cfg := meeting(t, Config{Ring: 64 << 10, MTU: 4000})
	a, b := listen(t, "a", cfg), listen(t, "b", cfg)
	if _, err := a.Resolve("b"); err != nil {
		t.Fatal(err)
	}
	const rounds = 20_000
	ended := make(chan error, 2)
	side := func(c *Conn, to transport.Addr, first bool) {
		pkts := make([]transport.RxPacket, 1)
		items := []transport.TxItem{{Dst: to, Head: []byte("ball")}}
		mine := first
		for i := 0; i < rounds; {
			if mine {
				if n, err := c.TxBurst(items); err != nil {
					ended <- err
					return
				} else if n == 1 {
					mine = false
					i++
				}
				continue
			}
			n, err := c.RxBurst(pkts)
			if err == nil && n == 0 && i%4 != 3 { // else spin: the next sleep begins at another time
				err = c.Wait(-1)
			}
			if err != nil {
				ended <- err
				return
			}
			mine = n == 1
		}
		ended <- nil
	}
	go side(a, b.LocalAddr(), true)
	go side(b, a.LocalAddr(), false)
	timeout := time.After(hang)
	for range 2 {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-timeout:
			t.Fatal("a wake-up was lost")
		}
	}
}

// TestBurstAllocs: nothing is allocated in steady state.
func TestBurstAllocs(t *testing.T) {
	a, b := joined(t, Config{})
	exchange(t, a, b)
	items := make([]transport.TxItem, 16)
	for i := range items {
		items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, 24), Data: make([]byte, i*100)}
	}
	pkts := make([]transport.RxPacket, 32)
	if n := testing.AllocsPerRun(1000, func() {
		if n, err := a.TxBurst(items); n != len(items) || err != nil {
			t.Fatal(n, err)
		}
		for got := 0; got < len(items); {
			n, _ := b.RxBurst(pkts)
			got += n
		}
	}); n != 0 {
		t.Errorf("%v allocations a burst", n)
	}
}
