package afxdp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

// injector sends frames as they are from one side.
type injector struct {
	tb testing.TB
	fd int
}

func newInjector(tb testing.TB, s *vethtest.Side) *injector {
	tb.Helper()
	x := &injector{tb: tb}
	s.Do(func() {
		var err error
		if x.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			tb.Fatal(err)
		}
		if err = unix.Bind(x.fd, &unix.SockaddrLinklayer{Ifindex: s.Link().Attrs().Index}); err != nil {
			tb.Fatal(err)
		}
	})
	tb.Cleanup(func() { unix.Close(x.fd) })
	return x
}

func (x *injector) send(frame []byte) {
	x.tb.Helper()
	if err := unix.Send(x.fd, frame, 0); err != nil {
		x.tb.Fatalf("frame of %d bytes: %v", len(frame), err)
	}
}

// frameFor returns a sound frame from side from to the endpoint on side to.
func frameFor(tb testing.TB, from, to *vethtest.Side, ip, dst netip.Addr, port uint16, payload []byte) []byte {
	tb.Helper()
	c, err := rawudp.NewCodec(rawudp.Local{MAC: rawudp.MAC(from.MAC), IP: ip, Port: 4242})
	if err != nil {
		tb.Fatal(err)
	}
	t := c.Template(dst)
	frame := make([]byte, c.HeaderSize()+len(payload))
	n := c.Put(frame, &t, rawudp.MAC(to.MAC), port, len(payload))
	copy(frame[n:], payload)
	c.Complete(frame)
	return frame
}

// ipSum puts the right checksum into the IPv4 header.
func ipSum(p []byte) []byte {
	p[24], p[25] = 0, 0
	var sum uint32
	for i := 14; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xFFFF
	}
	binary.BigEndian.PutUint16(p[24:], ^uint16(sum))
	return p
}

// foreign returns frames that are no packets for the endpoint, made from one that is.
func foreign(good []byte, v6 bool) map[string][]byte {
	edit := func(f func(p []byte) []byte) []byte { return f(append([]byte(nil), good...)) }
	set := func(at int, b ...byte) []byte {
		return edit(func(p []byte) []byte { copy(p[at:], b); return p })
	}
	list := map[string][]byte{
		"other MAC":   set(0, 2, 9, 9, 9, 9, 9),
		"broadcast":   set(0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF),
		"multicast":   set(0, 0x33, 0x33, 0, 0, 0, 1),
		"ARP":         set(12, 0x08, 0x06),
		"other":       set(12, 0x88, 0xB5),
		"only header": good[:14],
		"cut":         good[:len(good)-1],
		"cut in UDP":  good[:40],
		"VLAN": edit(func(p []byte) []byte {
			return append(append(append([]byte(nil), p[:12]...), 0x81, 0, 0, 5), p[12:]...)
		}),
		"two VLANs": edit(func(p []byte) []byte {
			return append(append(append([]byte(nil), p[:12]...), 0x88, 0xA8, 0, 5, 0x81, 0, 0, 6), p[12:]...)
		}),
	}
	if v6 {
		list["IP too long"] = set(19, good[19]+1)
		list["UDP too long"] = set(59, good[59]+1)
		list["UDP too short"] = set(58, 0, 7)
		list["UDP checksum"] = set(60, ^good[60])
		list["no UDP checksum"] = set(60, 0, 0)
		list["other port"] = set(56, ^good[56])
		list["fragment"] = set(20, 44)
		list["hop-by-hop"] = set(20, 0)
		return list
	}
	fixed := func(at int, b ...byte) []byte { return ipSum(set(at, b...)) }
	list["IP too long"] = fixed(17, good[17]+1)
	list["IP too short"] = fixed(16, 0, 27)
	list["IP of 0"] = fixed(16, 0, 0)
	list["UDP too long"] = set(39, good[39]+1)
	list["UDP too short"] = set(38, 0, 7)
	list["IP checksum"] = set(24, ^good[24])
	list["UDP checksum"] = set(40, ^good[40])
	list["other port"] = set(36, ^good[36])
	list["other IP"] = fixed(33, 99)
	list["DHCP"] = fixed(30, 255, 255, 255, 255, 0, 68, 0, 67)
	list["first fragment"] = fixed(20, 0x20)
	list["later fragment"] = fixed(20, 0, 3)
	list["options"] = fixed(14, 0x46)
	list["TCP"] = fixed(23, 6)
	return list
}

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
			x := newInjector(t, p.A)
			port := uint16(b.LocalAddr().Port)
			good := frameFor(t, p.A, p.B, from, to, port, []byte("some payload of a packet"))
			for name, frame := range foreign(good, v.v6) {
				x.send(frame)
				want := "after " + name
				x.send(frameFor(t, p.A, p.B, from, to, port, []byte(want)))
				got := receive(t, b, 1, 8)
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
			x.send(good) // and it answers
			got := receive(t, b, 1, 8)
			if string(got[0].Data) != "some payload of a packet" || got[0].From.Port != 4242 {
				t.Errorf("%q from %v", got[0].Data, got[0].From)
			}
		})
	}
}

// TestTooLarge: packets larger than the endpoint's MTU are dropped and counted; frames that are larger than
// a chunk are left to the kernel.
func TestTooLarge(t *testing.T) {
	for _, mode := range []Mode{ModeNative, ModeGeneric} {
		p := vethtest.New(t, 9000)
		b := listenOn(t, p.B, p.B.IP4, Config{MTU: 1400, Mode: mode})
		x := newInjector(t, p.A)
		port := uint16(b.LocalAddr().Port)
		largest := frameSize - 42
		for _, size := range []int{1401, largest, largest + 1, 8000, 1400, 2000, 1} {
			x.send(frameFor(t, p.A, p.B, p.A.IP4, p.B.IP4, port, make([]byte, size)))
		}
		got := receive(t, b, 2, 8)
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
	a, b := listenOn(t, p.A, p.A.IP4, Config{Mode: mode}), listenOn(t, p.B, p.B.IP4, Config{Mode: mode})
	exchange(t, a, b)
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
		transmit(t, a, items)
		want := bytes.Repeat([]byte{byte(size)}, size)
		if _, err := client.Write(want); err != nil {
			t.Fatal(err)
		}
		server.SetReadDeadline(time.Now().Add(patience))
		n, from, err := server.ReadFromUDPAddrPort(buf)
		if err != nil || !bytes.Equal(buf[:n], want) {
			t.Fatalf("datagram of %d bytes: %d, %v", size, n, err)
		}
		if _, err := server.WriteToUDPAddrPort(want, from); err != nil {
			t.Fatal(err)
		}
		client.SetReadDeadline(time.Now().Add(patience))
		if n, err = client.Read(buf); err != nil || n != size {
			t.Fatalf("answer of %d bytes: %d, %v", size, n, err)
		}
	}
	receive(t, b, 6, 8)
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
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err == nil || !bytes.Contains([]byte(err.Error()), []byte("refused")) {
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
	got := receive(t, b, 2, 8)
	if len(got[0].Data) != 10 || len(got[1].Data) != 11 {
		t.Errorf("packets of %d and %d bytes", len(got[0].Data), len(got[1].Data))
	}
	transmit(t, b, []transport.TxItem{{Dst: got[0].From, Head: []byte("answer")}})
	buf := make([]byte, 100)
	c.SetReadDeadline(time.Now().Add(patience))
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

// TestVLANInterface: over an interface of a VLAN an endpoint gets that VLAN's packets, and the one of
// the untagged interface below, on the same port, its own.
func TestVLANInterface(t *testing.T) {
	p := vethtest.New(t, 1500)
	if err := p.AddVLAN(5); err != nil {
		t.Skipf("the kernel has no 802.1Q: %v", err)
	}
	a, b := listenOn(t, p.A, p.A.VLAN, Config{}), listenOn(t, p.B, p.B.VLAN, Config{})
	plain := listenOn(t, p.B, p.B.IP4, Config{})
	if a.Link().Name == p.A.Name {
		t.Fatalf("interface %s", a.Link().Name)
	}
	exchange(t, a, b)
	exchange(t, b, a)
	var pkts [8]transport.RxPacket
	if n, err := plain.RxBurst(pkts[:]); n != 0 || err != nil {
		t.Errorf("the untagged endpoint got %d packets, %v", n, err)
	}
}
