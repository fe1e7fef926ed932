package pcap

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/userspace-rpc/erpc/transport"
)

// fake is a transport that takes as many items as it is told and gives out what it is given.
type fake struct {
	transport.Transport // nil: what is not below must not be called
	local               transport.Addr
	mtu                 int
	take                int   // items that TxBurst takes at most
	txErr               error // returned beside that
	onTx                func()
	rx                  []transport.RxPacket
	rxErr               error
	closed              int
}

func (f *fake) LocalAddr() transport.Addr { return f.local }
func (f *fake) Caps() transport.Caps      { return transport.Caps{Name: "fake", MTU: f.mtu} }
func (f *fake) Close() error              { f.closed++; return nil }

func (f *fake) TxBurst(items []transport.TxItem) (int, error) {
	if f.onTx != nil {
		f.onTx()
	}
	return min(f.take, len(items)), f.txErr
}

func (f *fake) RxBurst(pkts []transport.RxPacket) (int, error) { return copy(pkts, f.rx), f.rxErr }

func newFake(local string) *fake { return &fake{local: addr(local), mtu: 1 << 20, take: 1 << 20} }

func addr(text string) transport.Addr {
	return transport.AddrFrom(netip.MustParseAddrPort(text), 0)
}

// start begins a capture to w that ends with the test.
func start(t testing.TB, w io.Writer, cfg Config) *Capture {
	t.Helper()
	c, err := New(w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// finish closes a capture that must not have failed.
func finish(t testing.TB, c *Capture) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// record is one packet of a capture, decoded.
type record struct {
	at       time.Time
	length   int // of the frame when it was whole
	kept     int
	eth      *layers.Ethernet
	version  int
	src, dst netip.AddrPort
	tos      uint8
	hops     uint8
	payload  []byte
}

func (r *record) sent() bool { return bytes.Equal(r.eth.SrcMAC, ownMAC) }

// read decodes a capture with gopacket, strictly: every frame must be whole unless it was cut.
func read(t testing.TB, file []byte) (list []record) {
	t.Helper()
	scan(t, file, func(frame []byte, info gopacket.CaptureInfo) {
		list = append(list, decodeFrame(t, frame, info))
	})
	return list
}

// scan calls f for each record of a capture.
func scan(t testing.TB, file []byte, f func(frame []byte, info gopacket.CaptureInfo)) {
	t.Helper()
	r, err := pcapgo.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if r.LinkType() != layers.LinkTypeEthernet ||
		r.Resolution() != gopacket.TimestampResolutionNanosecond {
		t.Fatalf("link type %v, resolution %v", r.LinkType(), r.Resolution())
	}
	for n := 0; ; n++ {
		data, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) && info.CaptureLength == 0 {
			return
		}
		if err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
		f(data, info)
	}
}

// decodeFrame decodes a frame down to UDP. It does not look into the payload, whatever the ports:
// gopacket takes that of some, such as 6081, for another protocol.
func decodeFrame(t testing.TB, data []byte, info gopacket.CaptureInfo) record {
	t.Helper()
	var (
		eth   layers.Ethernet
		ip4   layers.IPv4
		ip6   layers.IPv6
		udp   layers.UDP
		found []gopacket.LayerType
	)
	p := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip4, &ip6, &udp)
	p.IgnoreUnsupported = true
	if err := p.DecodeLayers(data, &found); err != nil ||
		!slices.Contains(found, layers.LayerTypeUDP) {
		t.Fatalf("%v, not down to UDP: %v in %x", found, err, data)
	}
	x := record{at: info.Timestamp, length: info.Length, kept: info.CaptureLength, eth: &eth}
	var src, dst netip.Addr
	var network gopacket.NetworkLayer
	if slices.Contains(found, layers.LayerTypeIPv4) {
		x.version, x.tos, x.hops, network = 4, ip4.TOS, ip4.TTL, &ip4
		src, _ = netip.AddrFromSlice(ip4.SrcIP)
		dst, _ = netip.AddrFromSlice(ip4.DstIP)
		if err, ok := ip4.VerifyChecksum(); err != nil || !ok.Valid ||
			ip4.Flags != layers.IPv4DontFragment {
			t.Errorf("IPv4 header: %v, %+v, flags %v", err, ok, ip4.Flags)
		}
	} else {
		x.version, x.tos, x.hops, network = 6, ip6.TrafficClass, ip6.HopLimit, &ip6
		src, _ = netip.AddrFromSlice(ip6.SrcIP)
		dst, _ = netip.AddrFromSlice(ip6.DstIP)
	}
	x.src, x.dst = netip.AddrPortFrom(src, uint16(udp.SrcPort)),
		netip.AddrPortFrom(dst, uint16(udp.DstPort))
	x.payload = udp.Payload
	if x.kept < x.length {
		return x
	}
	if p.Truncated {
		t.Errorf("broken frame: %x", data)
	}
	if err := udp.SetNetworkLayerForChecksum(network); err != nil {
		t.Fatal(err)
	}
	if err, ok := udp.VerifyChecksum(); err != nil || !ok.Valid || udp.Checksum == 0 {
		t.Errorf("UDP checksum: %v, %+v", err, ok)
	}
	return x
}
