package rawudp

import "encoding/binary"

// Verdict says what Parse found.
type Verdict uint8

const (
	// Mine is a datagram to this endpoint.
	Mine Verdict = iota
	// Foreign is a frame for somebody else, or of another protocol.
	Foreign
	// Fragment is a part of an IP packet; the kernel may join it with others.
	Fragment
	// Malformed is a frame whose lengths contradict each other.
	Malformed
	// Damaged is a frame with a wrong checksum, or with none where one must be.
	Damaged
)

// Datagram is the content of a frame, as Parse found it.
type Datagram struct {
	Payload []byte   // within the frame; of a train, of all its packets
	IP      [16]byte // of the sender, IPv4 as IPv4-mapped
	Port    uint16   // of the sender
	CE      bool     // marked "congestion experienced" (RFC 3168)
}

// Parse reads the headers of a frame. The values in d count only if the verdict is
// Mine. Nothing in a frame can make it panic. Checksums of UDP are added up only where the device
// says that it does not know them; that of IPv4 always.
func (c *Codec) Parse(f *RxFrame, d *Datagram) Verdict {
	p := f.Data
	if len(p) < ethernetSize {
		return Malformed
	}
	if *(*MAC)(p) != c.local.MAC {
		return Foreign
	}
	vlan, kind := f.VLAN, binary.BigEndian.Uint16(p[12:])
	p = p[ethernetSize:]
	if kind == etherVLAN && vlan == NoVLAN {
		if len(p) < vlanSize {
			return Malformed
		}
		vlan, kind = int(binary.BigEndian.Uint16(p)), binary.BigEndian.Uint16(p[2:])
		p = p[vlanSize:]
	}
	if vlan != NoVLAN {
		if vlan &= vlanIDMask; vlan == 0 { // only a priority, no VLAN (802.1Q, 9.6)
			vlan = NoVLAN
		}
	}
	if vlan != c.vlan {
		return Foreign
	}
	if c.v6 {
		if kind != etherIPv6 {
			return Foreign
		}
		return c.parse6(f, p, d)
	}
	if kind != etherIPv4 {
		return Foreign
	}
	return c.parse4(f, p, d)
}

// parse4 reads an IPv4 packet, without the padding that Ethernet may have added.
func (c *Codec) parse4(f *RxFrame, p []byte, d *Datagram) Verdict {
	if len(p) < ipv4Size+udpSize {
		return Malformed
	}
	h := (*[ipv4Size + udpSize]byte)(p)
	if h[0] != 4<<4|ipv4Size/4 || h[9] != protoUDP || *(*[4]byte)(h[16:]) != *(*[4]byte)(c.ip[12:]) {
		return Foreign // that is with options, too
	}
	if binary.BigEndian.Uint16(h[6:])&fragMask != 0 {
		return Fragment
	}
	total := int(binary.BigEndian.Uint16(h[2:]))
	if total < ipv4Size+udpSize || total > len(p) {
		return Malformed
	}
	if fold(sum(0, h[:ipv4Size])) != 0xFFFF {
		return Damaged
	}
	d.IP = [16]byte{10: 0xFF, 11: 0xFF, 12: h[12], 13: h[13], 14: h[14], 15: h[15]}
	d.CE = h[1]&ecnMask == ecnCE
	return c.parseUDP(f, p[ipv4Size:total], p[12:20], d)
}

// parse6 reads an IPv6 packet, without padding.
func (c *Codec) parse6(f *RxFrame, p []byte, d *Datagram) Verdict {
	const fragment = 44 // next header
	if len(p) < ipv6Size+udpSize {
		return Malformed
	}
	h := (*[ipv6Size + udpSize]byte)(p)
	if h[0]>>4 != 6 || *(*[16]byte)(h[24:]) != c.ip {
		return Foreign
	}
	if h[6] == fragment {
		return Fragment
	}
	if h[6] != protoUDP {
		return Foreign // that is with extension headers, too
	}
	size := int(binary.BigEndian.Uint16(h[4:]))
	if size < udpSize || size > len(p)-ipv6Size {
		return Malformed
	}
	d.IP = [16]byte(h[8:])
	d.CE = h[1]>>4&ecnMask == ecnCE
	return c.parseUDP(f, p[ipv6Size:ipv6Size+size], p[8:40], d)
}

// parseUDP reads the UDP datagram in p. addrs are the IP addresses, as the checksum includes them.
func (c *Codec) parseUDP(f *RxFrame, p, addrs []byte, d *Datagram) Verdict {
	u := (*[udpSize]byte)(p)
	if binary.BigEndian.Uint16(u[2:]) != c.local.Port {
		return Foreign
	}
	size := int(binary.BigEndian.Uint16(u[4:]))
	if size < udpSize || size > len(p) {
		return Malformed
	}
	d.Port = binary.BigEndian.Uint16(u[0:])
	if d.Port == 0 {
		return Malformed // no answer can be sent
	}
	d.Payload = p[udpSize:size:size]
	check := binary.BigEndian.Uint16(u[6:])
	switch {
	case f.Checksum != ChecksumUnknown:
		return Mine
	case check == 0 && !c.v6:
		return Mine // sent without one (RFC 768); IPv6 forbids that (RFC 8200, 8.1)
	case check == 0 || f.Segment != 0:
		// A train's checksum covers no packet of it, so only the device can know.
		return Damaged
	}
	acc := sum16(sum16(sum(0, addrs), protoUDP), uint16(size))
	if fold(sum(acc, p[:size])) != 0xFFFF {
		return Damaged
	}
	return Mine
}
