package rawudp

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/userspace-rpc/erpc/transport"
)

var (
	macA = MAC{2, 0, 0, 0, 0, 1}
	macB = MAC{2, 0, 0, 0, 0, 2}
)

// sides returns the two ends of a conversation.
func sides(v6 bool, vlan uint16) (a, b Local) {
	a = Local{MAC: macA, IP: netip.MustParseAddr("10.1.2.3"), Port: 31850, VLAN: vlan}
	b = Local{MAC: macB, IP: netip.MustParseAddr("10.1.2.4"), Port: 9, VLAN: vlan}
	if v6 {
		a.IP, b.IP = netip.MustParseAddr("2001:db8::3"), netip.MustParseAddr("2001:db8::4")
	}
	return a, b
}

func newCodec(tb testing.TB, l Local) *Codec {
	tb.Helper()
	c, err := NewCodec(l)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// build returns a whole frame from a to b.
func build(tb testing.TB, a, b Local, payload []byte) []byte {
	c := newCodec(tb, a)
	t := c.Template(b.IP)
	frame := make([]byte, c.HeaderSize()+len(payload))
	n := c.Put(frame, &t, b.MAC, b.Port, len(payload))
	copy(frame[n:], payload)
	c.Complete(frame)
	return frame
}

func randomBytes(r *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

type kind struct {
	v6   bool
	vlan uint16
}

var kinds = []kind{{false, 0}, {false, 5}, {true, 0}, {true, 4094}}

// TestFramesByGopacket has gopacket read frames that the codec wrote, with its own checksums.
func TestFramesByGopacket(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range kinds {
		for i := range 300 {
			a, b := sides(k.v6, k.vlan)
			a.Port, b.Port = uint16(1+r.IntN(65535)), uint16(1+r.IntN(65535))
			a.ECN = i%2 == 0
			payload := randomBytes(r, r.IntN(1500))
			frame := build(t, a, b, payload)
			p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{})
			if e := p.ErrorLayer(); e != nil {
				t.Fatalf("%+v: %v", k, e.Error())
			}
			eth := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
			udp, _ := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
			if udp == nil || MAC(eth.SrcMAC) != a.MAC || MAC(eth.DstMAC) != b.MAC {
				t.Fatalf("%+v: %v", k, p)
			}
			if uint16(udp.SrcPort) != a.Port || uint16(udp.DstPort) != b.Port ||
				!bytes.Equal(udp.Payload, payload) {
				t.Fatalf("%+v: %v", k, p)
			}
			if tag, _ := p.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q); (tag != nil) != (k.vlan != 0) ||
				tag != nil && tag.VLANIdentifier != k.vlan {
				t.Fatalf("%+v: tag %v", k, tag)
			}
			if again := serialize(t, a, b, payload, a.ECN); !bytes.Equal(again, frame) {
				t.Fatalf("%+v: gopacket writes\n%x, the codec\n%x", k, again, frame)
			}
		}
	}
}

// serialize returns the frame from a to b as gopacket writes it.
func serialize(tb testing.TB, a, b Local, payload []byte, ecn bool) []byte {
	tb.Helper()
	class := uint8(0)
	if ecn {
		class = ect0
	}
	kind := layers.EthernetTypeIPv4
	if a.IP.Is6() {
		kind = layers.EthernetTypeIPv6
	}
	eth := &layers.Ethernet{SrcMAC: a.MAC[:], DstMAC: b.MAC[:], EthernetType: kind}
	list := []gopacket.SerializableLayer{eth}
	if a.VLAN != 0 {
		eth.EthernetType = layers.EthernetTypeDot1Q
		list = append(list, &layers.Dot1Q{VLANIdentifier: a.VLAN, Type: kind})
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(a.Port), DstPort: layers.UDPPort(b.Port)}
	if a.IP.Is6() {
		ip := &layers.IPv6{Version: 6, TrafficClass: class, NextHeader: layers.IPProtocolUDP,
			HopLimit: hopLimit,
			SrcIP:    net.IP(a.IP.AsSlice()), DstIP: net.IP(b.IP.AsSlice())}
		_ = udp.SetNetworkLayerForChecksum(ip)
		list = append(list, ip)
	} else {
		ip := &layers.IPv4{Version: 4, IHL: 5, TOS: class, TTL: hopLimit, Flags: layers.IPv4DontFragment,
			Protocol: layers.IPProtocolUDP, SrcIP: net.IP(a.IP.AsSlice()), DstIP: net.IP(b.IP.AsSlice())}
		_ = udp.SetNetworkLayerForChecksum(ip)
		list = append(list, ip)
	}
	list = append(list, udp, gopacket.Payload(payload))
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf,
		gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, list...); err != nil {
		tb.Fatal(err)
	}
	// gopacket pads short frames, and leaves a checksum of 0 as it is: on the wire that would
	// mean "none" (RFC 768).
	size := newCodec(tb, a).HeaderSize()
	frame, at := buf.Bytes()[:size+len(payload)], size-2
	if frame[at] == 0 && frame[at+1] == 0 {
		frame[at], frame[at+1] = 0xFF, 0xFF
	}
	return frame
}

// TestParseOwn: what one codec writes the other reads, also padded and with the tag taken out.
func TestParseOwn(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, k := range kinds {
		for range 300 {
			a, b := sides(k.v6, k.vlan)
			payload := randomBytes(r, r.IntN(1500))
			frame := build(t, a, b, payload)
			f := RxFrame{Data: append(frame, make([]byte, r.IntN(50))...), VLAN: NoVLAN}
			if k.vlan != 0 && r.IntN(2) == 0 { // as devices do
				f.VLAN = int(k.vlan) | 5<<13 // with a priority
				f.Data = append(append([]byte(nil), frame[:12]...), f.Data[16:]...)
			}
			var d Datagram
			if v := newCodec(t, b).Parse(&f, &d); v != Mine {
				t.Fatalf("%+v: verdict %d", k, v)
			}
			if !bytes.Equal(d.Payload, payload) || d.IP != a.IP.As16() || d.Port != a.Port || d.CE {
				t.Fatalf("%+v: %+v", k, d)
			}
			if v := newCodec(t, a).Parse(&f, &d); v != Foreign {
				t.Fatalf("%+v: the sender takes it: %d", k, v)
			}
		}
	}
}

// TestEveryBit flips each bit of a frame: no changed frame may pass as the same packet, but for the
// fields that nobody checks (the sender's MAC address, and the IPv6 traffic class and hop limit).
func TestEveryBit(t *testing.T) {
	for _, k := range kinds {
		a, b := sides(k.v6, k.vlan)
		payload := []byte("some payload")
		frame := build(t, a, b, payload)
		c := newCodec(t, b)
		l3 := c.l3
		for i := range len(frame) * 8 {
			at := i / 8
			free := at >= 6 && at < 12 || k.vlan != 0 && at == 14 && i%8 >= 4 || // priority
				k.v6 && (at == l3 && i%8 < 4 || at > l3 && at < l3+4 || at == l3+7)
			mutant := append([]byte(nil), frame...)
			mutant[at] ^= 1 << (i % 8)
			if k.vlan != 0 && at == 14 {
				free = i%8 >= 4
			}
			var d Datagram
			v := c.Parse(&RxFrame{Data: mutant, VLAN: NoVLAN}, &d)
			if (v == Mine) != free {
				t.Errorf("%+v: bit %d of byte %d: verdict %d", k, i%8, at, v)
			}
		}
		for n := range len(frame) { // cut short
			var d Datagram
			if v := c.Parse(&RxFrame{Data: frame[:n], VLAN: NoVLAN}, &d); v == Mine {
				t.Errorf("%+v: %d bytes of %d pass", k, n, len(frame))
			}
		}
	}
}

// TestVerdicts looks at single reasons to reject.
func TestVerdicts(t *testing.T) {
	a, b := sides(false, 0)
	good := build(t, a, b, make([]byte, 20))
	six, sixTo := sides(true, 0)
	good6 := build(t, six, sixTo, make([]byte, 20))
	fix := func(p []byte) { // the IP checksum
		p[24], p[25] = 0, 0
		v := ^fold(sum(0, p[14:34]))
		p[24], p[25] = byte(v>>8), byte(v)
	}
	for _, x := range []struct {
		name   string
		v6     bool
		change func(f *RxFrame)
		want   Verdict
	}{
		{"as it is", false, func(*RxFrame) {}, Mine},
		{"as it is, 6", true, func(*RxFrame) {}, Mine},
		{"more fragments", false, func(f *RxFrame) { f.Data[20] = 0x20; fix(f.Data) }, Fragment},
		{"last fragment", false, func(f *RxFrame) { f.Data[20], f.Data[21] = 0, 1; fix(f.Data) },
			Fragment},
		{"fragment, 6", true, func(f *RxFrame) { f.Data[20] = 44 }, Fragment},
		{"extension header, 6", true, func(f *RxFrame) { f.Data[20] = 0 }, Foreign},
		{"options", false, func(f *RxFrame) { f.Data[14] = 0x46; fix(f.Data) }, Foreign},
		{"TCP", false, func(f *RxFrame) { f.Data[23] = 6; fix(f.Data) }, Foreign},
		{"IP longer than the frame", false, func(f *RxFrame) { f.Data[17]++; fix(f.Data) }, Malformed},
		{"IP shorter than UDP", false, func(f *RxFrame) { f.Data[16], f.Data[17] = 0, 27; fix(f.Data) },
			Malformed},
		{"IP longer than the frame, 6", true, func(f *RxFrame) { f.Data[19]++ }, Malformed},
		{"IP shorter than UDP, 6", true, func(f *RxFrame) { f.Data[18], f.Data[19] = 0, 7 }, Malformed},
		{"UDP longer than IP", false, func(f *RxFrame) { f.Data[39]++ }, Malformed},
		{"UDP too short", false, func(f *RxFrame) { f.Data[38], f.Data[39] = 0, 7 }, Malformed},
		{"from port 0", false, func(f *RxFrame) { f.Data[34], f.Data[35] = 0, 0 }, Malformed},
		{"bad IP checksum", false, func(f *RxFrame) { f.Data[24]++ }, Damaged},
		{"bad UDP checksum", false, func(f *RxFrame) { f.Data[40]++ }, Damaged},
		{"bad UDP checksum that the device knows good", false,
			func(f *RxFrame) { f.Data[40]++; f.Checksum = ChecksumGood }, Mine},
		{"partial checksum", false, func(f *RxFrame) { f.Data[40]++; f.Checksum = ChecksumPartial },
			Mine},
		{"no UDP checksum", false, func(f *RxFrame) { f.Data[40], f.Data[41] = 0, 0 }, Mine},
		{"no UDP checksum, 6", true, func(f *RxFrame) { f.Data[60], f.Data[61] = 0, 0 }, Damaged},
		{"train of unknown checksum", false, func(f *RxFrame) { f.Segment = 5 }, Damaged},
		{"train", false, func(f *RxFrame) { f.Segment = 5; f.Checksum = ChecksumPartial }, Mine},
		{"tagged", false, func(f *RxFrame) { f.VLAN = 7 }, Foreign},
		{"priority tag", false, func(f *RxFrame) { f.VLAN = 7 << 13 }, Mine},
		{"broadcast", false, func(f *RxFrame) { copy(f.Data, "\xff\xff\xff\xff\xff\xff") }, Foreign},
		{"ARP", false, func(f *RxFrame) { f.Data[13] = 6 }, Foreign},
		{"other version, 6", true, func(f *RxFrame) { f.Data[14] = 0x45 }, Foreign},
		{"empty", false, func(f *RxFrame) { f.Data = nil }, Malformed},
	} {
		frame, c := good, newCodec(t, b)
		if x.v6 {
			frame, c = good6, newCodec(t, sixTo)
		}
		f := RxFrame{Data: append([]byte(nil), frame...), VLAN: NoVLAN}
		x.change(&f)
		var d Datagram
		if v := c.Parse(&f, &d); v != x.want {
			t.Errorf("%s: verdict %d, want %d", x.name, v, x.want)
		}
	}
}

// TestCongestionMark reads the mark of both versions.
func TestCongestionMark(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		a, b := sides(v6, 0)
		a.ECN = true
		frame := build(t, a, b, []byte("x"))
		if v6 {
			frame[15] |= ecnCE << 4
		} else {
			frame[15] |= ecnCE
			frame[24], frame[25] = 0, 0
			v := ^fold(sum(0, frame[14:34]))
			frame[24], frame[25] = byte(v>>8), byte(v)
		}
		var d Datagram
		if v := newCodec(t, b).Parse(&RxFrame{Data: frame, VLAN: NoVLAN}, &d); v != Mine || !d.CE {
			t.Errorf("IPv6 %v: verdict %d, CE %v", v6, v, d.CE)
		}
	}
}

// TestNoChecksum: an endpoint may send none over IPv4, which the other takes; over IPv6 it must.
func TestNoChecksum(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		a, b := sides(v6, 0)
		a.NoChecksum = true
		frame := build(t, a, b, []byte("x"))
		at := newCodec(t, a).HeaderSize() - 2
		if none := frame[at] == 0 && frame[at+1] == 0; none == v6 {
			t.Errorf("IPv6 %v: checksum %x", v6, frame[at:at+2])
		}
		var d Datagram
		if v := newCodec(t, b).Parse(&RxFrame{Data: frame, VLAN: NoVLAN}, &d); v != Mine ||
			string(d.Payload) != "x" {
			t.Errorf("IPv6 %v: verdict %d", v6, v)
		}
	}
}

// TestSum compares the fast sum with the definition in RFC 1071.
func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		p := randomBytes(r, r.IntN(200))
		if r.IntN(4) == 0 {
			for i := range p {
				p[i] = 0xFF
			}
		}
		var want uint32
		for i, b := range p {
			if i%2 == 0 {
				want += uint32(b) << 8
			} else {
				want += uint32(b)
			}
		}
		for want>>16 != 0 {
			want = want>>16 + want&0xFFFF
		}
		got := uint32(fold(sum(0, p)))
		if got != want && !(got == 0xFFFF && want == 0 || got == 0 && want == 0xFFFF) {
			t.Fatalf("%x: sum %x, want %x", p, got, want)
		}
		cut := r.IntN(len(p)+1) &^ 1
		if two := fold(sum(sum(0, p[:cut]), p[cut:])); uint32(two) != got &&
			got%0xFFFF != uint32(two)%0xFFFF {
			t.Fatalf("in two pieces %x, in one %x", two, got)
		}
	}
}

func TestNewCodecRefuses(t *testing.T) {
	good, _ := sides(false, 0)
	for _, change := range []func(l *Local){
		func(l *Local) { l.IP = netip.Addr{} },
		func(l *Local) { l.IP = netip.IPv4Unspecified() },
		func(l *Local) { l.IP = netip.MustParseAddr("224.0.0.1") },
		func(l *Local) { l.Port = 0 },
		func(l *Local) { l.VLAN = 4095 },
	} {
		l := good
		change(&l)
		if _, err := NewCodec(l); err == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}

// TestSpeaks tells addresses that can be sent to from others.
func TestSpeaks(t *testing.T) {
	a4, _ := sides(false, 0)
	a6, _ := sides(true, 0)
	c4, c6 := newCodec(t, a4), newCodec(t, a6)
	for _, x := range []struct {
		to     string
		v4, v6 bool
	}{
		{"10.0.0.1:5", true, false}, {"10.0.0.1:0", false, false}, {"[2001:db8::1]:5", false, true},
		{"0.0.0.0:5", false, false}, {"[::]:5", false, false}, {"224.0.0.1:5", false, false},
		{"255.255.255.255:5", false, false}, {"[ff02::1]:5", false, false},
		{"[::ffff:10.0.0.1]:5", true, false},
	} {
		to := transport.AddrFrom(netip.MustParseAddrPort(x.to), 0)
		if c4.Speaks(&to) != x.v4 || c6.Speaks(&to) != x.v6 {
			t.Errorf("%s: %v %v", x.to, c4.Speaks(&to), c6.Speaks(&to))
		}
	}
	if c4.Speaks(&transport.Addr{}) || c6.Speaks(&transport.Addr{}) {
		t.Error("no address can be sent to")
	}
}

// TestCodecAllocations: the hot path allocates nothing.
func TestCodecAllocations(t *testing.T) {
	for _, k := range kinds {
		a, b := sides(k.v6, k.vlan)
		c := newCodec(t, a)
		tmpl := c.Template(b.IP)
		frame := make([]byte, 200)
		f := RxFrame{Data: build(t, b, a, make([]byte, 100)), VLAN: NoVLAN}
		var d Datagram
		if n := testing.AllocsPerRun(100, func() {
			c.Put(frame, &tmpl, b.MAC, b.Port, 100)
			c.Complete(frame)
			if c.Parse(&f, &d) != Mine {
				t.Error("not parsed")
			}
		}); n != 0 {
			t.Errorf("%+v: %v allocations", k, n)
		}
	}
}
