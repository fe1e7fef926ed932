package afpacket

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/rawtest"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"github.com/userspace-rpc/erpc/transport/udp"
	"golang.org/x/sys/unix"
)

// tap captures the IP packets to one side, as they arrive.
func tap(t *testing.T, s *vethtest.Side) (next func() []byte) {
	t.Helper()
	fd := -1
	s.Do(func() {
		var err error
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
	})
	d := &device{fd: fd}
	if err := d.bind(s.Link().Attrs().Index); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
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

// TestWireBytes: a frame of this transport is, to the last bit, the one that the kernel's UDP
// socket sends from the same address and port.
func TestWireBytes(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		p := vethtest.New(t, 1500)
		from, to := p.A.IP4, p.B.IP4
		if v6 {
			from, to = p.A.IP6, p.B.IP6
		}
		b := listenOn(t, p.B, to, Config{Guard: GuardOff})
		next := tap(t, p.B)
		a := listenOn(t, p.A, from, Config{})
		local := a.LocalAddr().String()
		if _, err := a.Resolve(b.LocalAddr().String()); err != nil {
			t.Fatal(err)
		}
		items := []transport.TxItem{{Dst: b.LocalAddr(), Head: []byte("head "), Data: []byte("and data")}}
		rawtest.Transmit(t, a, items)
		raw := next()
		a.Close() // frees the port
		var k *udp.Conn
		var err error
		p.A.Do(func() { k, err = udp.Listen(local, udp.Config{MTU: 1400}) })
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		rawtest.Transmit(t, k, items)
		kernel := next()
		if v6 { // the kernel makes up a flow label (RFC 6437)
			copy(kernel[15:18], raw[15:18])
		}
		if !bytes.Equal(raw, kernel) {
			t.Errorf("IPv6 %v: raw\n%x, kernel\n%x", v6, raw, kernel)
		}
	}
}

// TestFullRing: what does not fit the ring is lost and counted, and what fits arrives.
func TestFullRing(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.IP4, Config{NoTrains: true}),
		listenOn(t, p.B, p.B.IP4, Config{Ring: 1})
	rawtest.Meet(t, a, b)
	items := make([]transport.TxItem, ringUnit+36)
	for i := range items {
		items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: []byte{byte(i)}}
	}
	for range 3 {
		// gives the slots back
		if n, err := b.RxBurst(make([]transport.RxPacket, 1)); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		before := b.Stats().RxDropped
		rawtest.Transmit(t, a, items)
		got := rawtest.Receive(t, b, ringUnit, 2*ringUnit)
		for i, x := range got {
			if x.Data[0] != byte(i) {
				t.Fatalf("packet %d is number %d", i, x.Data[0])
			}
		}
		if n := b.Stats().RxDropped - before; n != 36 || len(got) != ringUnit {
			t.Errorf("%d packets arrived, %d counted as dropped", len(got), n)
		}
	}
}

// TestTrainsAreTrains: a burst of equal packets is one call and one frame, in both directions.
func TestTrainsAreTrains(t *testing.T) {
	if !kernelAtLeast(6, 2) {
		t.Skip("trains need Linux 6.2")
	}
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.IP4, Config{}), listenOn(t, p.B, p.B.IP4, Config{})
	rawtest.Meet(t, a, b)
	for _, size := range []int{48, 1400} {
		items := make([]transport.TxItem, 40)
		for i := range items {
			items[i] = transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, 24),
				Data: make([]byte, size-24)}
		}
		before := a.Stats().TxCalls
		rawtest.Transmit(t, a, items)
		got := rawtest.Receive(t, b, 1, 64) // of one frame
		if calls := a.Stats().TxCalls - before; calls != 1 || len(got) != len(items) {
			t.Errorf("%d bytes: %d calls to send, %d packets in the first frame", size, calls, len(got))
		}
	}
}

// TestLinkLocal: addresses that count on their link only carry its number, also as senders, and are
// the same with the interface's name as zone.
func TestLinkLocal(t *testing.T) {
	p := vethtest.New(t, 1500)
	a, b := listenOn(t, p.A, p.A.Local6, Config{Interface: p.A.Name}),
		listenOn(t, p.B, p.B.Local6, Config{})
	index := p.A.Link().Attrs().Index
	if got := a.LocalAddr().Scope; got != uint32(index) {
		t.Fatalf("scope %d, want %d", got, index)
	}
	port := b.LocalAddr().AddrPort().Port()
	for _, zone := range []string{"", fmt.Sprintf("%%%d", index), "%" + p.A.Name} {
		text := fmt.Sprintf("[%v%s]:%d", p.B.Local6, zone, port)
		var to transport.Addr
		var err error
		p.A.Do(func() { to, err = a.Resolve(text) })
		if err != nil || to.Scope != uint32(index) {
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
