package rawudp

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// FuzzParse reads arbitrary frames: nothing panics, and whatever the codec takes gopacket reads
// in the same way.
func FuzzParse(f *testing.F) {
	for _, k := range kinds {
		a, b := sides(k.v6, k.vlan)
		frame := build(f, a, b, []byte("payload"))
		f.Add(frame, k.v6, k.vlan, uint8(0), uint16(0), NoVLAN)
		f.Add(frame[:len(frame)-1], k.v6, k.vlan, uint8(2), uint16(3), 5)
		f.Add(append(frame, 0, 0, 0), k.v6, k.vlan, uint8(1), uint16(0), NoVLAN)
	}
	f.Fuzz(func(t *testing.T, frame []byte, v6 bool, vlan uint16, check uint8,
		segment uint16, tag int) {
		_, local := sides(v6, vlan%4095)
		c := newCodec(t, local)
		before := append([]byte(nil), frame...)
		in := RxFrame{Data: frame, VLAN: tag, Segment: int(segment), Checksum: Checksum(check % 3)}
		var d Datagram
		v := c.Parse(&in, &d)
		if !bytes.Equal(frame, before) {
			t.Fatal("Parse wrote to the frame")
		}
		if v != Mine {
			return
		}
		p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{})
		udp, _ := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if udp == nil || uint16(udp.DstPort) != local.Port || uint16(udp.SrcPort) != d.Port ||
			!bytes.Equal(udp.Payload, d.Payload) {
			t.Fatalf("the codec reads %+v, gopacket %v", d, p)
		}
		if n := p.NetworkLayer().NetworkFlow(); !bytes.Equal(n.Dst().Raw(), local.IP.AsSlice()) {
			t.Fatalf("for %v", n.Dst())
		}
	})
}
