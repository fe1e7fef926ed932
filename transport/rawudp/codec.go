package rawudp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/userspace-rpc/erpc/transport"
)

// Sizes and offsets of headers in bytes.
const (
	ethernetSize = 14
	vlanSize     = 4
	ipv4Size     = 20
	ipv6Size     = 40
	udpSize      = 8
	// MaxHeader is the most bytes of headers in front of a packet.
	MaxHeader = ethernetSize + vlanSize + ipv6Size + udpSize

	maxIP = 65535 // largest total length of IPv4, largest payload length of IPv6
)

const (
	etherIPv4  = 0x0800
	etherIPv6  = 0x86DD
	etherVLAN  = 0x8100
	vlanIDMask = 0x0FFF
	protoUDP   = 17
	hopLimit   = 64
	dontFrag   = 0x4000 // flag, and
	fragMask   = 0x3FFF // more fragments | offset; IPv4
	ecnMask    = 3      // of the traffic class (RFC 3168)
	ect0       = 2
	ecnCE      = 3
)

// Local has the common parts of the frames of one endpoint.
type Local struct {
	MAC  MAC
	IP   netip.Addr // IPv4 or IPv6; the endpoint speaks that version only
	Port uint16
	VLAN uint16 // 802.1Q identifier of sent and received frames; 0: no tag
	ECN  bool   // sent packets are ECN-capable, ECT(0)
	// NoChecksum sends IPv4 packets without UDP checksum. Received ones need none over IPv4.
	NoChecksum bool
	Scope      uint32 // of link-local IPv6 addresses: the interface's number
}

// Codec writes and reads the headers of one endpoint's frames. It holds no frames.
type Codec struct {
	local Local
	v6    bool
	l3    int // offset of the IP header in sent frames
	size  int // bytes of all headers of sent frames
	ip    [16]byte
	vlan  int
}

// NewCodec returns the codec of an endpoint.
func NewCodec(l Local) (*Codec, error) {
	l.IP = l.IP.WithZone("").Unmap()
	if !l.IP.IsValid() || l.IP.IsUnspecified() || l.IP.IsMulticast() || l.Port == 0 ||
		l.VLAN > vlanIDMask-1 {
		return nil, fmt.Errorf("rawudp: %w: %v port %d VLAN %d", transport.ErrBadAddress, l.IP,
			l.Port, l.VLAN)
	}
	c := &Codec{local: l, v6: l.IP.Is6(), l3: ethernetSize, ip: l.IP.As16(), vlan: NoVLAN}
	if l.VLAN != 0 {
		c.l3 += vlanSize
		c.vlan = int(l.VLAN)
	}
	c.size = c.l3 + ipv4Size + udpSize
	if c.v6 {
		c.size = c.l3 + ipv6Size + udpSize
	}
	return c, nil
}

// Local returns what c was made with.
func (c *Codec) Local() Local { return c.local }

// HeaderSize returns the bytes of all headers of a sent frame.
func (c *Codec) HeaderSize() int { return c.size }

// L4 returns the offset of the UDP header of a sent frame.
func (c *Codec) L4() int { return c.size - udpSize }

// MaxPayload returns how many bytes of UDP payload fit an IP packet of mtu bytes.
func (c *Codec) MaxPayload(mtu int) int {
	if c.v6 {
		return min(mtu, maxIP+ipv6Size) - ipv6Size - udpSize
	}
	return min(mtu, maxIP) - ipv4Size - udpSize
}

// Speaks reports whether packets can be sent to a at all: right IP version, unicast, a port.
func (c *Codec) Speaks(a *transport.Addr) bool {
	if a.Port == 0 || a.Port > 65535 {
		return false
	}
	ip := netip.AddrFrom16(a.IP).Unmap()
	return ip.Is4() != c.v6 && !ip.IsUnspecified() && !ip.IsMulticast() &&
		(ip.Is6() || ip.As4() != [4]byte{255, 255, 255, 255})
}

// Template is the header of frames to one IP address, with what differs left open.
type Template struct {
	head   [MaxHeader]byte
	ip     uint64 // sum of the IP header without length and checksum
	pseudo uint64 // sum of addresses, protocol and source port
}

// Template returns the header of frames to dst. Its MAC address is set by Put.
func (c *Codec) Template(dst netip.Addr) Template {
	var t Template
	h := t.head[:]
	copy(h[6:12], c.local.MAC[:])
	kind := uint16(etherIPv4)
	if c.v6 {
		kind = etherIPv6
	}
	if c.local.VLAN != 0 {
		binary.BigEndian.PutUint16(h[12:], etherVLAN)
		binary.BigEndian.PutUint16(h[14:], c.local.VLAN)
	}
	binary.BigEndian.PutUint16(h[c.l3-2:], kind)
	class := byte(0)
	if c.local.ECN {
		class = ect0
	}
	p := h[c.l3:]
	if c.v6 {
		p[0], p[1] = 6<<4|class>>4, class<<4
		p[6], p[7] = protoUDP, hopLimit
		*(*[16]byte)(p[8:]) = c.ip
		*(*[16]byte)(p[24:]) = dst.As16()
		t.pseudo = sum(0, p[8:40])
	} else {
		p[0], p[1] = 4<<4|ipv4Size/4, class
		// The identification is 0: a packet that is never cut needs none (RFC 6864).
		binary.BigEndian.PutUint16(p[6:], dontFrag)
		p[8], p[9] = hopLimit, protoUDP
		*(*[4]byte)(p[12:]) = c.local.IP.As4()
		*(*[4]byte)(p[16:]) = dst.Unmap().As4()
		t.ip = sum(0, p[:ipv4Size])
		t.pseudo = sum(0, p[12:20])
	}
	t.pseudo = sum16(t.pseudo, protoUDP)
	binary.BigEndian.PutUint16(h[c.size-udpSize:], c.local.Port)
	return t
}

// Put writes the header of a packet with size bytes of payload into frame, which has
// room for it, and returns the bytes written. The UDP checksum is left as the sum of
// the pseudo header, ready for a device to complete (or for [Codec.Complete]), or 0 if the endpoint
// sends none. For a train size is that of all packets together.
func (c *Codec) Put(frame []byte, t *Template, to MAC, port uint16, size int) int {
	if c.v6 || c.local.VLAN != 0 {
		copy(frame, t.head[:c.size])
	} else { // a length that the compiler knows
		*(*[ethernetSize + ipv4Size + udpSize]byte)(frame) = [ethernetSize + ipv4Size + udpSize]byte(
			t.head[:])
	}
	*(*MAC)(frame) = to
	size += udpSize
	ip := frame[c.l3:]
	if c.v6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(size))
	} else {
		total := uint16(size + ipv4Size)
		binary.BigEndian.PutUint16(ip[2:], total)
		binary.BigEndian.PutUint16(ip[10:], ^fold(sum16(t.ip, total)))
	}
	u := (*[udpSize]byte)(frame[c.size-udpSize:])
	binary.BigEndian.PutUint16(u[2:], port)
	binary.BigEndian.PutUint16(u[4:], uint16(size))
	if !c.local.NoChecksum || c.v6 {
		binary.BigEndian.PutUint16(u[6:], fold(sum16(t.pseudo, uint16(size))))
	}
	return c.size
}

// Complete adds the UDP header and payload to the checksum that Put began. frame is
// the whole frame.
func (c *Codec) Complete(frame []byte) {
	u := frame[c.size-udpSize:]
	check := binary.BigEndian.Uint16(u[6:])
	if check == 0 && c.local.NoChecksum && !c.v6 {
		return
	}
	v := ^fold(sum(0, u)) // the field itself holds the pseudo header's sum
	if v == 0 {
		v = 0xFFFF // 0 would mean "no checksum" (RFC 768)
	}
	binary.BigEndian.PutUint16(u[6:], v)
}
