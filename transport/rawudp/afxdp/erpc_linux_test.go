package afxdp

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/afpacket"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

// TestRPC makes calls of the library across the pair: XDP to XDP, with loss, and to and from packet
// sockets and kernel sockets, which speak the same on the wire.
func TestRPC(t *testing.T) {
	small, large := 20_000, 10
	if testing.Short() {
		small, large = 2000, 2
	}
	type opener = func(testing.TB, *vethtest.Side, netip.Addr) transport.Transport
	xdp := func(tb testing.TB, s *vethtest.Side, ip netip.Addr) transport.Transport {
		return listenOn(tb, s, ip, Config{})
	}
	generic := func(tb testing.TB, s *vethtest.Side, ip netip.Addr) transport.Transport {
		return listenOn(tb, s, ip, Config{Mode: ModeGeneric})
	}
	plain := func(tb testing.TB, s *vethtest.Side, ip netip.Addr) transport.Transport {
		return rawtest.UDPOn(tb, s, ip)
	}
	packet := func(tb testing.TB, s *vethtest.Side,
		ip netip.Addr) transport.Transport {
		return packetOn(tb, s, ip)
	}
	for _, v := range []struct {
		name           string
		v6, loss       bool
		client, server opener
	}{
		{"xdp", false, false, xdp, xdp},
		{"xdp6", true, false, xdp, xdp},
		{"generic", false, false, generic, generic},
		{"lossy", false, true, xdp, xdp},
		{"to kernel", false, false, xdp, plain},
		{"from kernel", false, false, plain, xdp},
		{"to kernel6", true, false, xdp, plain},
		{"from kernel6", true, false, plain, xdp},
		{"to packet", false, false, xdp, packet},
		{"from packet", false, false, packet, xdp},
		{"from packet6", true, false, packet, xdp},
	} {
		t.Run(v.name, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			from, to := p.A.IP4, p.B.IP4
			if v.v6 {
				from, to = p.A.IP6, p.B.IP6
			}
			server, client := v.server(t, p.B, to), v.client(t, p.A, from)
			if v.loss {
				client, server = rawtest.Lossy(t, client, 1), rawtest.Lossy(t, server, 2)
				small, large := small/10, large/2
				rawtest.ServeEcho(t, server)
				rawtest.Calls(t, client, server.LocalAddr().String(), small, large)
				return
			}
			rawtest.ServeEcho(t, server)
			rawtest.Calls(t, client, server.LocalAddr().String(), small, large)
		})
	}
}

// packetOn opens a packet socket on one side.
func packetOn(tb testing.TB, s *vethtest.Side, ip netip.Addr) *afpacket.Conn {
	tb.Helper()
	var c *afpacket.Conn
	var err error
	s.Do(func() { c, err = afpacket.Listen(netip.AddrPortFrom(ip, 0).String(), afpacket.Config{}) })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// TestOffloads: in generic mode packets that a peer's kernel left to hardware never come in joined.
// With the peer's offload off all of them come in.
func TestOffloads(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := packetOn(t, p.A, p.A.IP4), listenOn(t, p.B, p.B.IP4, Config{Mode: ModeGeneric})
	if _, err := a.Resolve(b.LocalAddr().String()); err != nil {
		t.Fatal(err)
	}
	items := make([]transport.TxItem, 20)
	for i := range items {
		items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: bytes.Repeat([]byte{byte(i)}, 100)}
	}
	x := rawtest.NewInjector(t, p.A)
	mark := rawtest.FrameFor(t, p.A, p.B, p.A.IP4, p.B.IP4, uint16(b.LocalAddr().Port), []byte("mark"))
	rawtest.Transmit(t, a, items)
	x.Send(mark)
	if got := rawtest.Receive(t, b, 1, 64); len(got) != 1 || string(got[0].Data) != "mark" ||
		b.Rejects().Damaged != 1 {
		t.Errorf("%d packets, the first of %d bytes; rejects %+v", len(got), len(got[0].Data),
			b.Rejects())
	}
	offloadOff(t, p.A)
	rawtest.Transmit(t, a, items)
	for i, x := range rawtest.Receive(t, b, len(items), 64) {
		if !bytes.Equal(x.Data, items[i].Head) {
			t.Errorf("packet %d: %d bytes", i, len(x.Data))
		}
	}
}

// offloadOff has a side's kernel complete checksums itself (ethtool -K tx off).
func offloadOff(t *testing.T, s *vethtest.Side) {
	t.Helper()
	value := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_STXCSUM}
	if err := ethtool(t, s, unsafe.Pointer(&value)); err != nil {
		t.Fatal(err)
	}
}

// TestRPCWhileLinkIsDown: a call made while the link is down is answered when it is up again.
func TestRPCWhileLinkIsDown(t *testing.T) {
	p := vethtest.New(t, 1500)
	server := listenOn(t, p.B, p.B.IP4, Config{})
	rawtest.ServeEcho(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), rawtest.Patience)
	defer cancel()
	client, err := erpc.Dial(ctx, listenOn(t, p.A, p.A.IP4, Config{}), server.LocalAddr().String(),
		erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 5 {
		p.A.Up(false)
		ended := make(chan error, 1)
		go func() {
			got, err := client.Call(ctx, 1, []byte{byte(i)})
			if err == nil && !bytes.Equal(got, []byte{byte(i)}) {
				err = errors.New("another answer")
			}
			ended <- err
		}()
		p.A.Up(true)
		if err := <-ended; err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestRPCOverDeletedLink: when the link is deleted calls fail, and both loops end with errors that
// name their links.
func TestRPCOverDeletedLink(t *testing.T) {
	p := vethtest.New(t, 1500)
	server := listenOn(t, p.B, p.B.IP4, Config{})
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.HandleInline(1, func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()) }); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(server) }()
	ctx, cancel := context.WithTimeout(t.Context(), rawtest.Patience)
	defer cancel()
	client, err := erpc.Dial(ctx, listenOn(t, p.A, p.A.IP4, Config{}), server.LocalAddr().String(),
		erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Call(ctx, 1, []byte("x")); err != nil {
		t.Fatal(err)
	}
	p.A.Delete()
	if _, err = client.Call(ctx, 1, []byte("x")); !errors.Is(err, erpc.ErrClosed) {
		t.Errorf("the client's call ends with %v", err)
	}
	for side, err := range map[*vethtest.Side]error{p.A: client.Close(), p.B: <-ended} {
		if e, ok := errors.AsType[*rawudp.LinkError](err); !ok || e.Link != side.Name ||
			e.Err != rawudp.ErrLinkGone {
			t.Errorf("the loop on %s ends with %v", side.Name, err)
		}
	}
}
