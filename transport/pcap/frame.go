package pcap

import (
	"net"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// The two ends of the made-up Ethernet: 02 for "locally administered", "erpc", and which.
var (
	ownMAC  = net.HardwareAddr{2, 'e', 'r', 'p', 'c', 1}
	peerMAC = net.HardwareAddr{2, 'e', 'r', 'p', 'c', 2}
)

// Fields of the made-up headers.
const (
	hopLimit = 64
	ecnCE    = 3     // RFC 3168
	maxUDP4  = 65507 // bytes of payload that a UDP datagram in IPv4 has room for
)

// parts is the payload of a frame: a packet in two parts, as transports take it.
type parts struct{ head, data []byte }

// LayerType implements gopacket.SerializableLayer.
func (p *parts) LayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

// SerializeTo implements gopacket.SerializableLayer.
func (p *parts) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	room, err := b.PrependBytes(len(p.head) + len(p.data))
	if err != nil {
		return err
	}
	copy(room[copy(room, p.head):], p.data)
	return nil
}

// framer makes frames around packets. Once warm it does not allocate, except for packets
// that need an IPv6 jumbogram.
type framer struct {
	eth      layers.Ethernet
	ip4      layers.IPv4
	ip6      layers.IPv6
	udp      layers.UDP
	packet   parts
	src, dst place
	stack4   []gopacket.SerializableLayer
	stack6   []gopacket.SerializableLayer
	buf      gopacket.SerializeBuffer
}

func newFramer() *framer {
	f := &framer{buf: gopacket.NewSerializeBufferExpectedSize(2048, 0)}
	f.ip4 = layers.IPv4{Version: 4, TTL: hopLimit, Protocol: layers.IPProtocolUDP,
		Flags: layers.IPv4DontFragment}
	f.stack4 = []gopacket.SerializableLayer{&f.eth, &f.ip4, &f.udp, &f.packet}
	f.stack6 = []gopacket.SerializableLayer{&f.eth, &f.ip6, &f.udp, &f.packet}
	return f
}

// frame returns the frame of a packet on its way between the endpoint itself and a peer.
// It is valid until the next call.
func (f *framer) frame(own, peer place, sent, ce bool, head, data []byte) ([]byte, error) {
	alike(&own, &peer)
	f.packet = parts{head, data}
	f.src, f.dst, f.eth.SrcMAC, f.eth.DstMAC = own, peer, ownMAC, peerMAC
	if !sent {
		f.src, f.dst, f.eth.SrcMAC, f.eth.DstMAC = peer, own, peerMAC, ownMAC
	}
	f.udp.SrcPort, f.udp.DstPort = layers.UDPPort(f.src.port), layers.UDPPort(f.dst.port)
	var tos uint8
	if ce {
		tos = ecnCE
	}
	var network gopacket.NetworkLayer = &f.ip4
	stack := f.stack4
	if own.is4() && peer.is4() && len(head)+len(data) <= maxUDP4 {
		f.eth.EthernetType = layers.EthernetTypeIPv4
		f.ip4.TOS = tos
		f.ip4.SrcIP, f.ip4.DstIP = f.src.ip[12:], f.dst.ip[12:]
	} else {
		f.eth.EthernetType = layers.EthernetTypeIPv6
		// All of it anew: after a jumbogram its extension header would stay.
		f.ip6 = layers.IPv6{Version: 6, HopLimit: hopLimit, NextHeader: layers.IPProtocolUDP,
			TrafficClass: tos,
			SrcIP:        f.src.ip[:], DstIP: f.dst.ip[:]}
		network, stack = &f.ip6, f.stack6
	}
	err := f.udp.SetNetworkLayerForChecksum(network)
	if err == nil {
		err = gopacket.SerializeLayers(f.buf,
			gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, stack...)
	}
	f.packet = parts{} // keep no packet's memory alive
	return f.buf.Bytes(), err
}
