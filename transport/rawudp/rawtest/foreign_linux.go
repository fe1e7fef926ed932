package rawtest

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

// Injector sends frames as they are from one side.
type Injector struct {
	tb testing.TB
	fd int
}

// NewInjector returns one that is closed when the test ends.
func NewInjector(tb testing.TB, s *vethtest.Side) *Injector {
	tb.Helper()
	x := &Injector{tb: tb}
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

// Send sends a frame.
func (x *Injector) Send(frame []byte) {
	x.tb.Helper()
	if err := unix.Send(x.fd, frame, 0); err != nil {
		x.tb.Fatalf("frame of %d bytes: %v", len(frame), err)
	}
}

// FrameFor returns a sound frame from side from to the endpoint on side to.
func FrameFor(tb testing.TB, from, to *vethtest.Side, ip, dst netip.Addr, port uint16,
	payload []byte) []byte {
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

// IPSum puts the right checksum into the IPv4 header.
func IPSum(p []byte) []byte {
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

// Foreign returns frames that are no packets for the endpoint, made from one that is.
func Foreign(good []byte, v6 bool) map[string][]byte {
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
	fixed := func(at int, b ...byte) []byte { return IPSum(set(at, b...)) }
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
