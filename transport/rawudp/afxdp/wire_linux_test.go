package afxdp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/afpacket"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"github.com/userspace-rpc/erpc/transport/udp"
	"golang.org/x/sys/unix"
)

// tap captures the UDP packets to one side, as they arrive.
func tap(t *testing.T, s *vethtest.Side) (next func() []byte) {
	t.Helper()
	fd := -1
	s.Do(func() {
		var err error
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { unix.Close(fd) })
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
	if err := unix.Bind(fd,
		&unix.SockaddrLinklayer{Protocol: all, Ifindex: s.Link().Attrs().Index}); err != nil {
		t.Fatal(err)
	}
	return func() []byte {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if n, err := unix.Poll(poll, int(rawtest.Patience/time.Millisecond)); n == 0 ||
				err != nil && err != unix.EINTR {
				t.Fatalf("no frame: %v", err)
			}
			buf := make([]byte, 2000)
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				t.Fatal(err)
			}
			udp := buf[12] == 8 && buf[23] == 17 || buf[12] == 0x86 && buf[20] == 17
			if from.(*unix.SockaddrLinklayer).Pkttype == unix.PACKET_HOST && udp {
				return buf[:n]
			}
		}
	}
}

// TestWireBytes: a frame of this transport is, to the last bit, the one that a packet socket and
// the kernel's UDP socket send from the same address and port.
func TestWireBytes(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		p := vethtest.New(t, 1500)
		offloadOff(t, p.A) // or the others leave the checksum open
		from, to := p.A.IP4, p.B.IP4
		if v6 {
			from, to = p.A.IP6, p.B.IP6
		}
		peer := rawtest.UDPOn(t, p.B, to)
		next := tap(t, p.B)
		local := netip.AddrPortFrom(from, 40404).String()
		items := []transport.TxItem{{Dst: peer.LocalAddr(), Head: []byte("head "),
			Data: []byte("and data")}}
		frameOf := func(listen func() (transport.Transport, error)) []byte {
			var tr transport.Transport
			var err error
			p.A.Do(func() { tr, err = listen() })
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close() // frees the port
			if _, err := tr.Resolve(peer.LocalAddr().String()); err != nil {
				t.Fatal(err)
			}
			rawtest.Transmit(t, tr, items)
			return next()
		}
		for _, mode := range []Mode{ModeNative, ModeGeneric} {
			ours := frameOf(func() (transport.Transport, error) { return Listen(local, Config{Mode: mode}) })
			packet := frameOf(func() (transport.Transport, error) {
				return afpacket.Listen(local, afpacket.Config{})
			})
			kernel := frameOf(func() (transport.Transport, error) {
				return udp.Listen(local, udp.Config{MTU: 1400})
			})
			if v6 { // the kernel makes up a flow label (RFC 6437)
				copy(kernel[15:18], ours[15:18])
			}
			if !bytes.Equal(ours, packet) || !bytes.Equal(ours, kernel) {
				t.Errorf("IPv6 %v, %v:\n%x, packet socket\n%x, kernel\n%x", v6, mode, ours, packet, kernel)
			}
		}
	}
}

// TestLinkLocal: addresses that count on their link only carry its number, also as senders.
func TestLinkLocal(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.Local6, Config{Interface: p.A.Name}),
		listenOn(t, p.B, p.B.Local6, Config{})
	index := uint32(p.A.Link().Attrs().Index)
	if got := a.LocalAddr().Scope; got != index {
		t.Fatalf("scope %d, want %d", got, index)
	}
	port := b.LocalAddr().AddrPort().Port()
	for _, zone := range []string{"", fmt.Sprintf("%%%d", index), "%" + p.A.Name} {
		text := fmt.Sprintf("[%v%s]:%d", p.B.Local6, zone, port)
		var to transport.Addr
		var err error
		p.A.Do(func() { to, err = a.Resolve(text) })
		if err != nil || to.Scope != index {
			t.Fatalf("Resolve(%q) = %v, %v", text, to, err)
		}
		rawtest.Transmit(t, a, []transport.TxItem{{Dst: to, Head: []byte("ask")}})
		got := rawtest.Receive(t, b, 1, 8)
		if got[0].From.Scope != b.LocalAddr().Scope || got[0].From.IP != a.LocalAddr().IP {
			t.Errorf("from %+v", got[0].From)
		}
		rawtest.Transmit(t, b, []transport.TxItem{{Dst: got[0].From, Head: []byte("answer")}})
		if back := rawtest.Receive(t, a, 1, 8); back[0].From != to {
			t.Errorf("answer from %+v, asked %+v", back[0].From, to)
		}
	}
	if _, err := a.Resolve(fmt.Sprintf("[%v%%lo]:%d", p.B.Local6, port)); !errors.Is(err,
		transport.ErrBadAddress) {
		t.Errorf("zone of another interface: %v", err)
	}
}

// TestArmed: the sockets announce frames only from the moment on when somebody is about to sleep to
// the next look, and nobody sleeps if they cannot.
func TestArmed(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.IP4, Config{}), listenOn(t, p.B, p.B.IP4, Config{})
	rawtest.Exchange(t, a, b)
	d := b.dev
	readable := func() bool {
		poll := []unix.PollFd{{Fd: int32(d.FD()), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		if err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		return n == 1
	}
	drain := func() {
		for frames := make([]transport.RxPacket, 8); ; {
			if n, err := b.RxBurst(frames); n == 0 || err != nil {
				return
			}
		}
	}
	items := []transport.TxItem{{Dst: b.LocalAddr(), Head: []byte("x")}}
	drain()
	for range 3 {
		if d.armed {
			t.Fatal("armed by a look")
		}
		if idle, err := b.PrepareWait(); !idle || err != nil || !d.armed || readable() {
			t.Fatalf("idle %v, %v, armed %v, readable %v", idle, err, d.armed, readable())
		}
		rawtest.Transmit(t, a, items)
		for end := time.Now().Add(rawtest.Patience); !readable(); {
			if time.Now().After(end) {
				t.Fatal("a frame leaves the descriptor silent")
			}
		}
		if err := b.FinishWait(1); err != nil {
			t.Fatal(err)
		}
		rawtest.Receive(t, b, 1, 8)
		drain()
	}
	epoll := d.epoll
	d.epoll = -1
	if !d.Pending() || d.armed {
		t.Error("without a descriptor somebody sleeps")
	}
	d.epoll = epoll
	if d.Pending() || !d.armed {
		t.Error("it is not tried again")
	}
}
