package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

// erpcBundle builds a bundle of three packets through the layer, with three bytes of padding.
func erpcBundle(t testing.TB) []byte {
	t.Helper()
	b, fix := gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{FixLengths: true}
	err := gopacket.SerializeLayers(b, fix, &layer.Bundle{Packets: []layer.ERPC{
		{Header: wire.Header{Type: wire.TypeReq, ReqType: 3, Session: wire.FirstOf(2) + 9, ReqNum: 5,
			Hold: 7},
			Token: 0xDEADBEEF, BaseLayer: layers.BaseLayer{Payload: []byte("four")}},
		{Header: wire.Header{Type: wire.TypeErr, Session: wire.FirstOf(2) + 9, ReqNum: 6,
			Flags: wire.FlagLate, Hold: 100},
			Token: 0xDEADBEEF, Fault: wire.Error{Status: wire.StatusAborted, Code: wire.CodePanic}},
		{Header: wire.Header{Type: wire.TypeAck, Session: 8, PktNum: 4}, Token: 2},
	}}, gopacket.Payload("pad"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b.Bytes())
}

// bundleLines holds the lines that decode prints of that bundle.
var bundleLines = []string{
	"BUNDLE bytes=87 packets=3 content=68 padding=3 session=9 loop=2 token=deadbeef",
	"REQ session=9 loop=2 req=5 pkt=0 size=4 data=4 reqtype=3 flags=- try=7 token=deadbeef inside=1",
	"ERR session=9 loop=2 req=6 pkt=0 size=8 data=8 flags=LATE hold=6.4us token=deadbeef " +
		`inside=2 status=ABORTED code="handler panicked" ran=false text=""`,
	"ACK session=8 req=0 pkt=4 size=0 data=0 reqtype=0 flags=- token=00000002 inside=3",
}

// bundleFile is a capture of the bundle, cut to so many bytes of it, and of a bundle whose first
// packet is none that a bundle may have.
func bundleFile(t testing.TB, captured int) []byte {
	pkt := erpcBundle(t)
	bad := bytes.Clone(pkt)
	bad[wire.BundleHeaderSize] = 0x24
	frames := wrapped([][]byte{
		udpFrame(t, testClient, testServer, pkt), udpFrame(t, testClient, testServer, bad)}, etherHead...)
	full := len(frames[0])
	frames[0] = frames[0][:full-len(pkt)+captured]
	file := pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, frames)
	binary.LittleEndian.PutUint32(file[24+12:], uint32(full))
	return file
}

// TestDecodeBundle: a line for the bundle, and one for each packet inside that was captured. The
// summary counts a bundle once, and by types all of it.
func TestDecodeBundle(t *testing.T) {
	head := testClient + " > " + testServer + " "
	for captured, inside := range map[int]int{87: 3, 86: 3, 84: 3, 83: 2, 32: 1, 16: 0} {
		status, out, errOut := decodeFile(t, bundleFile(t, captured))
		var want strings.Builder
		for i, l := range bundleLines[:1+inside] {
			if i == 0 && captured < 87 {
				l += fmt.Sprintf(" captured=%d", captured)
			}
			fmt.Fprintf(&want, "%s %s%s\n", stamp(0).UTC().Format("2006-01-02T15:04:05.000000000Z"), head, l)
		}
		types := [...]string{"0 REQ, 0 RFR, 0 CR, 0 RESP, 0 MGMT, 1 BUNDLE",
			"1 REQ, 0 RFR, 0 CR, 0 RESP, 0 MGMT, 1 BUNDLE",
			"1 REQ, 0 RFR, 0 CR, 0 RESP, 0 MGMT, 1 ERR, 1 BUNDLE",
			"1 REQ, 0 RFR, 0 CR, 0 RESP, 0 MGMT, 1 ERR, 1 ACK, 1 BUNDLE"}[inside]
		fmt.Fprintf(&want, "%s %sMALFORMED bytes=87 why=\"unknown packet type\"\n"+
			"--- FILE: 2 packets, 1 eRPC (%s), 1 malformed, 0 other, 1.000000 s\n",
			stamp(1).UTC().Format("2006-01-02T15:04:05.000000000Z"), head, types)
		if status != cli.Done || out != want.String() || errOut != "" {
			t.Errorf("%d captured: status %d, err %q, out\n%swant\n%s", captured, status, errOut, out, &want)
		}
	}
	_, out, _ := decodeFile(t, bundleFile(t, 15))
	if !strings.Contains(out, `MALFORMED bytes=87 why="cut short by the capture" captured=15`) {
		t.Errorf("a header that was cut: %s", out)
	}
}

func TestDecodeBundleJSON(t *testing.T) {
	status, out, errOut := decodeFile(t, bundleFile(t, 87), "--json")
	var d decoded
	decodeOne(t, out, &d)
	if status != cli.Done || errOut != "" || len(d.Packets) != 5 || d.Erpc != 1 || d.Malformed != 1 ||
		fmt.Sprint(d.Types) != "map[ACK:1 BUNDLE:1 ERR:1 REQ:1]" {
		t.Fatalf("status %d, err %q, %+v", status, errOut, d)
	}
	if b := d.Packets[0]; b.Type != "BUNDLE" || b.Inside != 0 || b.Bytes != 87 ||
		fmt.Sprint(b.Body) != "map[content:68 loop:2 packets:3 padding:3 session:9 token:deadbeef]" {
		t.Errorf("%+v", b)
	}
	for i, size := range []int{16, 26, 26} {
		p := d.Packets[1+i]
		want := testClient + " > " + testServer + " " + bundleLines[1+i]
		if p.Inside != i+1 || p.Bytes != size || p.Body == nil && p.text() != p.Time+" "+want {
			t.Errorf("packet %d: %+v, want %s", i, p, want)
		}
	}
}

// TestDecodeFeatures: an offer tells the features by name, and the bits that nobody knows.
func TestDecodeFeatures(t *testing.T) {
	connect := &wire.Connect{Offer: wire.Offer{Features: wire.FeatureBundle | 1<<5}}
	h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect), Session: wire.NoSession}
	frames := wrapped([][]byte{
		udpFrame(t, testClient, testServer, erpcPacket(t, h, 0, connect, ""))}, etherHead...)
	_, out, _ := decodeFile(t, pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, frames))
	if !strings.Contains(out, " checksum=false bundles=true features=00000020 ") {
		t.Errorf("out\n%s", out)
	}
}

// TestDecodeBundlePort: a sound bundle gives its endpoints away, as a packet does.
func TestDecodeBundlePort(t *testing.T) {
	frames := wrapped([][]byte{
		udpFrame(t, testClient, "10.0.0.2:5000", erpcBundle(t)),
		udpFrame(t, "10.0.0.9:53", "10.0.0.2:5000", []byte("no header")),
	}, etherHead...)
	_, out, _ := decodeFile(t, pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, frames))
	if !strings.Contains(out, "2 packets, 1 eRPC") || !strings.Contains(out, "1 malformed, 0 other") {
		t.Errorf("out\n%s", out)
	}
}
