package afxdp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
)

// TestForeignTraffic sends what is not for the endpoint: none of it gets there, and the
// endpoint goes on working.
func TestForeignTraffic(t *testing.T) {
	for _, v := range []struct {
		v6   bool
		mode Mode
	}{{false, ModeNative}, {true, ModeNative}, {false, ModeGeneric}, {true, ModeGeneric}} {
		t.Run(fmt.Sprintf("v6=%v,%v", v.v6, v.mode), func(t *testing.T) {
			p := vethtest.New(t, 1500)
			from, to := p.A.IP4, p.B.IP4
			if v.v6 {
				from, to = p.A.IP6, p.B.IP6
			}
			b := listenOn(t, p.B, to, Config{Mode: v.mode})
			x := rawtest.NewInjector(t, p.A)
			port := uint16(b.LocalAddr().Port)
			good := rawtest.FrameFor(t, p.A, p.B, from, to, port, []byte("some payload of a packet"))
			for name, frame := range rawtest.Foreign(good, v.v6) {
				x.Send(frame)
				want := "after " + name
				x.Send(rawtest.FrameFor(t, p.A, p.B, from, to, port, []byte(want)))
				got := rawtest.Receive(t, b, 1, 8)
				if len(got) != 1 || string(got[0].Data) != want {
					t.Errorf("%s: received %d packets, %.50q", name, len(got), got[0].Data)
				}
			}
			r := b.Rejects()
			if r.Malformed == 0 || r.Damaged == 0 {
				t.Errorf("rejects %+v: some frames must have got to the codec", r)
			}
			if r.Fragments != 0 || r.Foreign != 1 { // the one to another unicast MAC address
				t.Errorf("rejects %+v: the program lets others in", r)
			}
			x.Send(good) // and it answers
			got := rawtest.Receive(t, b, 1, 8)
			if string(got[0].Data) != "some payload of a packet" || got[0].From.Port != 4242 {
				t.Errorf("%q from %v", got[0].Data, got[0].From)
			}
		})
	}
}

// TestTooLarge: packets larger than the endpoint's MTU are dropped and counted; frames that are
// larger than a chunk are left to the kernel.
func TestTooLarge(t *testing.T) {
	for _, mode := range []Mode{ModeNative, ModeGeneric} {
		p := vethtest.New(t, 9000)
		b := listenOn(t, p.B, p.B.IP4, Config{MTU: 1400, Mode: mode})
		x := rawtest.NewInjector(t, p.A)
		port := uint16(b.LocalAddr().Port)
		largest := frameSize - 42
		for _, size := range []int{1401, largest, largest + 1, 8000, 1400, 2000, 1} {
			x.Send(rawtest.FrameFor(t, p.A, p.B, p.A.IP4, p.B.IP4, port, make([]byte, size)))
		}
		got := rawtest.Receive(t, b, 2, 8)
		if len(got[0].Data) != 1400 || len(got[1].Data) != 1 {
			t.Errorf("packets of %d and %d bytes", len(got[0].Data), len(got[1].Data))
		}
		if s, r := b.Stats(), b.Rejects(); s.RxDropped != 3 || r.TooLarge != 3 {
			t.Errorf("%v: %d dropped, %d too large, want 3", mode, s.RxDropped, r.TooLarge)
		}
	}
}

// TestOthersKeepWorking: beside an endpoint under load, kernel sockets on the same interface get
// all of theirs: fragments, other ports, ICMP, and ARP.
func TestOthersKeepWorking(t *testing.T) {
	for _, mode := range []Mode{ModeNative, ModeGeneric} {
		t.Run(mode.String(), func(t *testing.T) { othersKeepWorking(t, mode) })
	}
}

func othersKeepWorking(t *testing.T, mode Mode) {
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.IP4, Config{Mode: mode}),
		listenOn(t, p.B, p.B.IP4, Config{Mode: mode})
	rawtest.Exchange(t, a, b)
	var client, server *net.UDPConn
	var err error
	p.B.Do(func() { server, err = net.ListenUDP("udp4", &net.UDPAddr{IP: p.B.IP4.AsSlice()}) })
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p.A.Do(func() { client, err = net.DialUDP("udp4", nil, server.LocalAddr().(*net.UDPAddr)) })
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := p.A.Forget(p.B.IP4); err != nil { // ARP again
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	items := []transport.TxItem{{Dst: b.LocalAddr(), Head: make([]byte, 48)}}
	for _, size := range []int{1, 100, 1472, 1473, 4000, 20000} { // from 1473 on in fragments
		rawtest.Transmit(t, a, items)
		want := bytes.Repeat([]byte{byte(size)}, size)
		if _, err := client.Write(want); err != nil {
			t.Fatal(err)
		}
		server.SetReadDeadline(time.Now().Add(rawtest.Patience))
		n, from, err := server.ReadFromUDPAddrPort(buf)
		if err != nil || !bytes.Equal(buf[:n], want) {
			t.Fatalf("datagram of %d bytes: %d, %v", size, n, err)
		}
		if _, err := server.WriteToUDPAddrPort(want, from); err != nil {
			t.Fatal(err)
		}
		client.SetReadDeadline(time.Now().Add(rawtest.Patience))
		if n, err = client.Read(buf); err != nil || n != size {
			t.Fatalf("answer of %d bytes: %d, %v", size, n, err)
		}
	}
	rawtest.Receive(t, b, 6, 8)
	closedPort(t, p)
	if mode == ModeGeneric {
		offloadOff(t, p.A)
	}
	endpointPort(t, p, b)
}

// closedPort: a port that nobody has is answered with ICMP.
func closedPort(t *testing.T, p *vethtest.Pair) {
	t.Helper()
	c := dialFrom(t, p.A, netip.AddrPortFrom(p.B.IP4, 9))
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(rawtest.Patience))
	if _, err := c.Read(make([]byte, 1)); err == nil ||
		!bytes.Contains([]byte(err.Error()), []byte("refused")) {
		t.Errorf("a closed port is answered with %v", err)
	}
}

// endpointPort: that of the endpoint is not, also for fragments, which the kernel gets.
func endpointPort(t *testing.T, p *vethtest.Pair, b *Conn) {
	t.Helper()
	c := dialFrom(t, p.A, b.LocalAddr().AddrPort())
	for _, size := range []int{10, 3000, 11} {
		if _, err := c.Write(make([]byte, size)); err != nil {
			t.Fatalf("the endpoint's port answers: %v", err)
		}
	}
	got := rawtest.Receive(t, b, 2, 8)
	if len(got[0].Data) != 10 || len(got[1].Data) != 11 {
		t.Errorf("packets of %d and %d bytes", len(got[0].Data), len(got[1].Data))
	}
	rawtest.Transmit(t, b, []transport.TxItem{{Dst: got[0].From, Head: []byte("answer")}})
	buf := make([]byte, 100)
	c.SetReadDeadline(time.Now().Add(rawtest.Patience))
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "answer" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

func dialFrom(t *testing.T, s *vethtest.Side, to netip.AddrPort) (c *net.UDPConn) {
	t.Helper()
	var err error
	s.Do(func() { c, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestVLANInterface: over an interface of a VLAN an endpoint gets that VLAN's packets, and the one
// of the untagged interface below, on the same port, its own.
func TestVLANInterface(t *testing.T) {
	p := vethtest.New(t, 1500)
	switch err := p.AddVLAN(5); {
	case errors.Is(err, errors.ErrUnsupported):
		t.Skipf("the kernel has no 802.1Q: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	a, b := listenOn(t, p.A, p.A.VLAN, Config{}), listenOn(t, p.B, p.B.VLAN, Config{})
	plain := listenOn(t, p.B, p.B.IP4, Config{})
	if a.Link().Name == p.A.Name {
		t.Fatalf("interface %s", a.Link().Name)
	}
	rawtest.Exchange(t, a, b)
	rawtest.Exchange(t, b, a)
	var pkts [8]transport.RxPacket
	if n, err := plain.RxBurst(pkts[:]); n != 0 || err != nil {
		t.Errorf("the untagged endpoint got %d packets, %v", n, err)
	}
}
