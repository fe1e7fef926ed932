package erpc_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
	"github.com/userspace-rpc/erpc/wire"
)

// detour is a way to a server that can lead to another process from one moment on. The network says
// nothing of the one before.
type detour struct {
	t  *testing.T
	to atomic.Pointer[netip.AddrPort]
	// forge returns what goes back to the client before a packet of it goes on; nil for nothing.
	forge func(pkt []byte) []byte
}

// begin returns an address of the way for one client.
func (d *detour) begin() string {
	in, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = in.Close() })
	go func() {
		var client netip.AddrPort
		b := make([]byte, 1<<16)
		for {
			n, from, err := in.ReadFromUDPAddrPort(b)
			switch {
			case err != nil:
				return
			case from == *d.to.Load():
				_, _ = in.WriteToUDPAddrPort(b[:n], client)
			case client == netip.AddrPort{} || from == client:
				client = from
				if d.forge != nil {
					if pkt := d.forge(b[:n]); pkt != nil {
						_, _ = in.WriteToUDPAddrPort(pkt, client)
					}
				}
				_, _ = in.WriteToUDPAddrPort(b[:n], *d.to.Load())
			}
		}
	}()
	return in.LocalAddr().String()
}

// serveGroup runs a server of some loops until the test ends.
func serveGroup(t *testing.T, cfg erpc.Config, loops int) *netip.AddrPort {
	srv, err := erpc.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	echo := func(_ context.Context, req []byte) ([]byte, error) { return bytes.Clone(req), nil }
	if err := srv.Handle(1, echo); err != nil {
		t.Fatal(err)
	}
	group, err := udp.ListenGroup("127.0.0.1:0", loops, udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var trs []transport.Transport
	for _, tr := range group {
		trs = append(trs, tr)
	}
	addr := group[0].LocalAddr().AddrPort()
	go func() { _ = srv.ServeGroup(trs) }()
	t.Cleanup(func() { _ = srv.Close() })
	return &addr
}

// TestSealedGroupRestarts: a server of several loops restarts without a word. Each client learns it
// from the loop that it had, whichever that was, and long before it would miss the server.
func TestSealedGroupRestarts(t *testing.T) { groupRestarts(t, 4) }

// TestSealedGroupShrinks: the same if the server has fewer loops then. A client whose loop is not
// there any more learns it from another one.
func TestSealedGroupShrinks(t *testing.T) { groupRestarts(t, 1) }

// groupRestarts has a server of four loops restart with some.
func groupRestarts(t *testing.T, loops int) {
	cfg := erpc.Config{PSK: testPSK}
	cfg.Timing.FailureTimeout = 5 * time.Minute
	d := &detour{t: t}
	d.to.Store(serveGroup(t, cfg, 4))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var clients []*erpc.Client
	for range 8 {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := erpc.Dial(ctx, tr, d.begin(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	d.to.Store(serveGroup(t, cfg, loops))
	again := 0
	for i, c := range clients {
		start := time.Now()
		for {
			_, err := c.Call(ctx, 1, []byte("a call"))
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("client %d: %v", i, err)
			}
		}
		if time.Since(start) > 900*time.Millisecond { // a second handshake comes a second later
			again++
		}
	}
	if again > 2 { // a loop at random is the right one once in four times
		t.Errorf("%d of %d clients shook hands with other loops than theirs", again, len(clients))
	}
}

// TestNoKeysWhileOpening: somebody on the path says of each datagram, as soon as it leaves, that
// the server has no keys. A client believes that once a second. So it hears the server's own
// answer, and makes no handshake again and again.
func TestNoKeysWhileOpening(t *testing.T) {
	cfg := erpc.Config{PSK: testPSK}
	d := &detour{t: t}
	d.to.Store(serveGroup(t, cfg, 4))
	var said atomic.Int32
	d.forge = func(pkt []byte) []byte {
		if !wire.IsSealed(pkt) {
			return nil
		}
		said.Add(1)
		n := wire.NoKeys{Quote: [wire.QuoteSize]byte(pkt)}
		b := make([]byte, wire.HeaderSize+wire.NoKeysSize)
		h := wire.Header{
			Type: wire.TypeMgmt, ReqType: uint8(wire.OpNoKeys), MsgSize: wire.NoKeysSize,
			Session: wire.NoSession,
		}
		h.Put(b, 0)
		n.Put(b[wire.HeaderSize:])
		wire.SealMgmt(b, 0)
		return b
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := erpc.Dial(ctx, tr, d.begin(), cfg)
	if err != nil {
		t.Fatalf("%v, after %d forged packets", err, said.Load())
	}
	_ = c.Close()
	if said.Load() == 0 {
		t.Error("nothing was forged")
	}
}
