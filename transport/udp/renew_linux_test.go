package udp

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// sendTo makes c take a packet.
func sendTo(t *testing.T, c *Conn, to transport.Addr, text string) {
	t.Helper()
	n, err := c.TxBurst([]transport.TxItem{{Dst: to, Head: []byte(text)}})
	if n != 1 || err != nil {
		t.Fatalf("TxBurst: %d, %v", n, err)
	}
}

// awaits sleeps without end until a packet has come, and returns it.
func awaits(t *testing.T, c *Conn) transport.RxPacket {
	t.Helper()
	guard := time.AfterFunc(time.Minute, func() { panic(t.Name() + " hangs") })
	defer guard.Stop()
	pkts := make([]transport.RxPacket, 1)
	for {
		n, err := c.RxBurst(pkts)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return pkts[0]
		}
		if err := c.Wait(-1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRenewWaits: what comes to a further socket ends a wait, as what comes to the first one does,
// and so do Wake and Close. A peer that is not renewed gets packets from the first one.
func TestRenewWaits(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		t.Run(addr, func(t *testing.T) {
			needIPv6(t, addr)
			a, b, c := listen(t, addr, Config{}), listen(t, "127.0.0.1:0", Config{}),
				listen(t, "127.0.0.1:0", Config{})
			sendTo(t, a, b.LocalAddr(), "first")
			first := awaits(t, b).From
			if err := a.Renew(b.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				sendTo(t, a, b.LocalAddr(), "by another port")
				sendTo(t, a, c.LocalAddr(), "by the first one")
				p := awaits(t, b)
				if p.From == first || string(p.Data) != "by another port" {
					t.Fatalf("%q from %v", p.Data, p.From)
				}
				sendTo(t, b, p.From, "an answer")
				if q := awaits(t, a); string(q.Data) != "an answer" || q.From != b.LocalAddr() {
					t.Fatalf("%q from %v", q.Data, q.From)
				}
				if q := awaits(t, c); q.From != first {
					t.Errorf("another peer gets packets from %v, and not from %v", q.From, first)
				}
				sendTo(t, b, first, "to the first port")
				if q := awaits(t, a); string(q.Data) != "to the first port" {
					t.Fatalf("%q from %v", q.Data, q.From)
				}
			}
			s := a.Stats()
			if s.RxPackets != 6 || s.TxPackets != 7 {
				t.Errorf("%+v", s)
			}
			a.Wake()
			if err := a.Wait(-1); err != nil {
				t.Error(err)
			}
			a.Wake()
			if err := a.Nap(time.Hour); err != nil {
				t.Error(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- a.Wait(-1) }()
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, transport.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// TestRenewHints: errors of the network about packets of a further socket are heard.
func TestRenewHints(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{})
	to := b.LocalAddr()
	if err := a.Renew(to); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	sendTo(t, a, to, "nobody is there")
	hints := make([]transport.Hint, 2)
	guard := time.AfterFunc(time.Minute, func() { panic(t.Name() + " hangs") })
	defer guard.Stop()
	for n := 0; n == 0; n = a.Hints(hints) {
		if err := a.Wait(-1); err != nil {
			t.Fatal(err)
		}
		if _, err := a.RxBurst(make([]transport.RxPacket, 4)); err != nil {
			t.Fatal(err)
		}
	}
	if hints[0].Kind != transport.HintUnreachable || hints[0].To != to {
		t.Errorf("%+v", hints[0])
	}
	if a.SoftErrors() == 0 {
		t.Error("it was not counted")
	}
}

// TestRenewBounded: however many peers are renewed, and however often, there are a few sockets, and
// those that nobody uses are closed.
func TestRenewBounded(t *testing.T) {
	a := listen(t, "127.0.0.1:0", Config{})
	k := a.impl.(*kernelConn)
	old := func() { // they were opened long ago
		for _, o := range k.out.all {
			o.born = o.born.Add(-renewPause)
		}
	}
	peer := func(i int) transport.Addr {
		to, err := a.Resolve(fmt.Sprintf("127.0.0.1:%d", 1000+i))
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	for range 3 {
		for i := range 2 * maxRenewed {
			if err := a.Renew(peer(i)); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				old()
			}
		}
		if len(k.out.all) > maxOutlets || len(k.out.peers) > maxRenewed {
			t.Fatalf("%d sockets of %d peers", len(k.out.all), len(k.out.peers))
		}
	}
	// All but one peer are silent for long.
	for _, p := range k.out.peers {
		p.at = p.at.Add(-2 * renewedFor)
	}
	old()
	if err := a.Renew(peer(0)); err != nil {
		t.Fatal(err)
	}
	if len(k.out.all) != 1 || len(k.out.peers) != 1 || k.out.all[0].peers != 1 {
		t.Errorf("%d sockets of %d peers", len(k.out.all), len(k.out.peers))
	}
	// One peer again and again: one socket, another one each time.
	seen := map[int]bool{}
	for range 10 {
		old()
		if err := a.Renew(peer(0)); err != nil {
			t.Fatal(err)
		}
		sa, err := unix.Getsockname(k.out.peers[peer(0)].by.fd)
		if err != nil {
			t.Fatal(err)
		}
		seen[sa.(*unix.SockaddrInet4).Port] = true
		if len(k.out.all) != 1 {
			t.Fatalf("%d sockets", len(k.out.all))
		}
	}
	if len(seen) < 9 { // the kernel may give a port twice
		t.Errorf("%d ports", len(seen))
	}
}

// TestRenewForgets: of many peers that are renewed the one is forgotten that was sent nothing
// for the longest time. One that is sent to keeps its port.
func TestRenewForgets(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{})
	to := b.LocalAddr()
	if err := a.Renew(to); err != nil {
		t.Fatal(err)
	}
	var port transport.Addr
	for i := range 8 * maxRenewed {
		sendTo(t, a, to, "alive")
		switch from := awaits(t, b).From; {
		case i == 0:
			port = from
		case from != port:
			t.Fatalf("after %d others: packets come from %v, and not from %v", i, from, port)
		}
		other, err := a.Resolve(fmt.Sprintf("127.0.0.1:%d", 1+i))
		if err != nil {
			t.Fatal(err)
		}
		other.IP[15] = 9 // nobody's
		if err := a.Renew(other); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.impl.(*kernelConn).out.peers); n != maxRenewed {
		t.Errorf("%d peers, want %d", n, maxRenewed)
	}
	// One that is renewed again takes nobody's place.
	if err := a.Renew(to); err != nil {
		t.Fatal(err)
	}
	if n := len(a.impl.(*kernelConn).out.peers); n != maxRenewed {
		t.Errorf("%d peers, want %d", n, maxRenewed)
	}
}

// TestRenewNamespace: a socket that was opened in another network namespace gets no further one in
// that of the calling thread, where the peer's address is somebody else's.
func TestRenewNamespace(t *testing.T) {
	wrong := listen(t, "127.0.0.1:0", Config{})
	to := wrong.LocalAddr()
	if _, known := wrong.impl.namespace(); !known {
		lacks(t, "a kernel that tells networks apart")
	}
	var a, right *Conn
	inNamespace(t, 1500, func(t *testing.T) {
		right, a = listen(t, to.String(), Config{}), listen(t, "127.0.0.1:0", Config{})
		here := listen(t, "127.0.0.1:0", Config{})
		if err := here.Renew(to); err != nil {
			t.Errorf("in its own namespace: %v", err)
		}
	})
	if a == nil {
		return // inNamespace has said why
	}
	if err := a.Renew(to); err != transport.ErrUnsupported {
		t.Errorf("Renew: %v, want %v", err, transport.ErrUnsupported)
	}
	sendTo(t, a, to, "for the right one")
	if n, err := wrong.RxBurst(make([]transport.RxPacket, 1)); n != 0 || err != nil {
		t.Fatalf("the wrong peer got %d packets, %v", n, err)
	}
	if p := awaits(t, right); p.From != a.LocalAddr() {
		t.Errorf("a packet from %v, want %v", p.From, a.LocalAddr())
	}
}

// TestRenewNot: a socket on a port that was asked for keeps it, and so does the portable one. An
// address of another family is refused.
func TestRenewNot(t *testing.T) {
	a := listen(t, "127.0.0.1:0", Config{})
	text := a.LocalAddr().String()
	to := listen(t, "127.0.0.1:0", Config{}).LocalAddr()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Renew(to); err != transport.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	if err := listen(t, text, Config{}).Renew(to); err != transport.ErrUnsupported {
		t.Errorf("a port that was asked for: %v", err)
	}
	portable := listen(t, "127.0.0.1:0", Config{Portable: true})
	if err := portable.Renew(to); err != transport.ErrUnsupported {
		t.Errorf("the portable one: %v", err)
	}
	six := transport.Addr{IP: [16]byte{0xFD, 15: 1}, Port: 5}
	four := listen(t, "127.0.0.1:0", Config{})
	if err := four.Renew(six); !errors.Is(err, transport.ErrBadAddress) {
		t.Errorf("another family: %v", err)
	}
}
