package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	testClient = "10.0.0.1:40000"
	testServer = "10.0.0.2:31850"
)

// udpFrame is an IPv4 packet with UDP, without Ethernet.
func udpFrame(t testing.TB, src, dst string, payload []byte) []byte {
	t.Helper()
	from, to := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP,
		SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice()}
	udp := &layers.UDP{SrcPort: layers.UDPPort(from.Port()), DstPort: layers.UDPPort(to.Port())}
	_ = udp.SetNetworkLayerForChecksum(ip)
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true,
		ComputeChecksums: true}, ip, udp, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b.Bytes())
}

// erpcPacket builds a packet through the layer.
func erpcPacket(t testing.TB, h wire.Header, token uint32, body layer.Body, payload string) []byte {
	t.Helper()
	b := gopacket.NewSerializeBuffer()
	e := &layer.ERPC{Header: h, Token: token, Body: body}
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: h.Type == wire.TypeMgmt}
	if err := gopacket.SerializeLayers(b, opts, e, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b.Bytes())
}

// stamps are the times of the frames of a capture.
func stamp(i int) time.Time {
	return time.Unix(1_700_000_000, 250_001_000).Add(time.Duration(i) * time.Second)
}

// pcapFile is a capture in the classic format, written by hand.
func pcapFile(order binary.AppendByteOrder, nanos bool, link layers.LinkType,
	frames [][]byte) []byte {
	magic, unit := uint32(0xA1B2C3D4), int64(1000)
	if nanos {
		magic, unit = 0xA1B23C4D, 1
	}
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(order.AppendUint16(b, 2), 4)
	b = append(b, make([]byte, 8)...)
	b = order.AppendUint32(order.AppendUint32(b, 1<<16), uint32(link))
	for i, f := range frames {
		at := stamp(i)
		b = order.AppendUint32(order.AppendUint32(b, uint32(at.Unix())),
			uint32(int64(at.Nanosecond())/unit))
		b = order.AppendUint32(order.AppendUint32(b, uint32(len(f))), uint32(len(f)))
		b = append(b, f...)
	}
	return b
}

func pcapngFile(t testing.TB, link layers.LinkType, frames [][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, link)
	for i, f := range frames {
		if err == nil {
			err = w.WritePacket(gopacket.CaptureInfo{Timestamp: stamp(i), CaptureLength: len(f),
				Length: len(f)}, f)
		}
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// wrapped puts bytes in front of every frame.
func wrapped(frames [][]byte, head ...byte) (out [][]byte) {
	for _, f := range frames {
		out = append(out, append(bytes.Clone(head), f...))
	}
	return out
}

var etherHead = []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}

// decodeFile runs "erpc decode" on a file with the given bytes.
func decodeFile(t testing.TB, file []byte, flags ...string) (status int, out, errOut string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.pcap")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	status = run(t.Context(), append([]string{"decode", name}, flags...), strings.NewReader(""), &o,
		&e)
	return status, strings.ReplaceAll(o.String(), name, "FILE"),
		strings.ReplaceAll(e.String(), name, "FILE")
}

// TestDecode: every kind of file, all of the text.
func TestDecode(t *testing.T) {
	frames, lines := sample(t)
	var want strings.Builder
	shown := 0
	for i := range frames {
		if i != 0 && i != len(frames)-1 { // the others are not eRPC
			fmt.Fprintf(&want, "%s %s\n", stamp(i).UTC().Format("2006-01-02T15:04:05.000000000Z"),
				lines[shown])
			shown++
		}
	}
	fmt.Fprintf(&want, "--- FILE: %d packets, %d eRPC (2 REQ, 1 RFR, 1 CR, 4 RESP, "+
		"4 MGMT, 3 ERR, 1 WAIT, 1 PAST, 1 CANCEL, 1 ACK, 1 VERSION), 3 malformed, 2 other, "+
		"%d.000000 s\n", len(frames), len(frames)-5, len(frames)-3)
	if shown != len(lines) {
		t.Fatalf("%d of %d lines", shown, len(lines))
	}
	ether := wrapped(frames, etherHead...)
	vlan := wrapped(frames, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 8, 0)
	sll := wrapped(frames, 0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0)
	for name, file := range map[string][]byte{
		"microseconds":             pcapFile(binary.LittleEndian, false, layers.LinkTypeEthernet, ether),
		"nanoseconds":              pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, ether),
		"big-endian":               pcapFile(binary.BigEndian, false, layers.LinkTypeEthernet, ether),
		"big-endian, nanoseconds":  pcapFile(binary.BigEndian, true, layers.LinkTypeEthernet, ether),
		"pcapng":                   pcapngFile(t, layers.LinkTypeEthernet, ether),
		"VLAN":                     pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, vlan),
		"raw IP":                   pcapFile(binary.LittleEndian, true, layers.LinkTypeRaw, frames),
		"any interface":            pcapFile(binary.LittleEndian, true, layers.LinkTypeLinuxSLL, sll),
		"any interface and pcapng": pcapngFile(t, layers.LinkTypeLinuxSLL, sll),
	} {
		status, out, errOut := decodeFile(t, file)
		if status != cli.Done || out != want.String() || errOut != "" {
			t.Errorf("%s: status %d, err %q, out\n%swant\n%s", name, status, errOut, out, want.String())
		}
	}
}

// decoded is printed by decode --json.
type decoded struct {
	Decode  string `json:"decode"`
	Packets []line `json:"packets"`
	decodeSummary
}

func TestDecodeJSON(t *testing.T) {
	frames, lines := sample(t)
	status, out, errOut := decodeFile(t, pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet,
		wrapped(frames, etherHead...)), "--json")
	if status != cli.Done || errOut != "" {
		t.Fatalf("status %d, err %q", status, errOut)
	}
	var d decoded
	decodeOne(t, out, &d)
	if d.Decode != "FILE" || d.decodeSummary.Packets != len(frames) || d.Erpc != 20 ||
		d.Malformed != 3 || d.Other != 2 || d.Types["RESP"] != 4 || d.Types["ERR"] != 3 || d.Error != "" {
		t.Errorf("%+v", d.decodeSummary)
	}
	if len(d.Packets) != len(lines) {
		t.Fatalf("%d packets", len(d.Packets))
	}
	for i := range d.Packets {
		p := &d.Packets[i]
		if p.Body == nil && p.text() != p.Time+" "+lines[i] { // bodies have lost their order
			t.Errorf("packet %d: %s\nwant %s", i, p.text(), lines[i])
		}
	}
	p := d.Packets[0]
	if p.Op != "CONNECT" || p.Header.Session != nil || p.Body["credits"] != 32.0 ||
		p.Body["nonce"] != "00000000000000ab" || p.Body["checksum"] != true || p.Bytes != 88 {
		t.Errorf("%+v", p)
	}
	if h := d.Packets[1].Header; *h.Session != 9 || h.Req != 1<<40 || h.Field != 5 || *h.Try != 5 ||
		h.HoldNS != nil || h.Hold != "" {
		t.Errorf("%+v", h)
	}
	if h := d.Packets[2].Header; *h.HoldNS != 20480 || h.Token != "00000001" ||
		fmt.Sprint(h.Flags) != "[CE GAP]" {
		t.Errorf("%+v", h)
	}
	h, body := d.Packets[6].Header, d.Packets[6].Body
	if fmt.Sprint(h.Flags) != "[LATE CUT=1232]" || h.Data != 20 || h.LeftNS != nil ||
		fmt.Sprint(body) != `map[code:application error details:ab00 ran:true `+
			`status:NOT_FOUND text:it "broke"]` {
		t.Errorf("%+v, %v", h, body)
	}
	if h := d.Packets[9].Header; *h.LeftNS != 3072000 || *h.Try != 3 || h.HoldNS != nil {
		t.Errorf("%+v", h)
	}
	// An empty capture is one object too.
	status, out, _ = decodeFile(t, pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, nil),
		"--json")
	d = decoded{}
	decodeOne(t, out, &d)
	if status != cli.Done || d.decodeSummary.Packets != 0 || len(d.Packets) != 0 {
		t.Errorf("status %d, %q", status, out)
	}
}

// TestCodeName: a code of a later version is told by its number.
func TestCodeName(t *testing.T) {
	for c, want := range map[wire.Code]string{
		wire.CodeForgotten: "response forgotten", wire.CodeDenied + 1: "unknown code 13",
		255: "unknown code 255",
	} {
		if got := codeName(c); got != want {
			t.Errorf("code %d is %q, want %q", c, got, want)
		}
	}
}

// TestDecodePort: a port decides alone.
func TestDecodePort(t *testing.T) {
	frames, _ := sample(t)
	file := pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, wrapped(frames, etherHead...))
	for port, want := range map[string]string{
		"5000": "25 packets, 17 eRPC (2 REQ, 1 RFR, 1 CR, 4 RESP, 2 MGMT, 3 ERR, 1 WAIT, 1 PAST, " +
			"1 CANCEL, 1 ACK), 2 malformed, 6 other",
		"31850": "25 packets, 3 eRPC (0 REQ, 0 RFR, 0 CR, 0 RESP, 2 MGMT, 1 VERSION), 1 malformed, " +
			"21 other",
		"54": "25 packets, 0 eRPC (0 REQ, 0 RFR, 0 CR, 0 RESP, 0 MGMT), 1 malformed, 24 other",
	} {
		status, out, _ := decodeFile(t, file, "--port", port)
		if status != cli.Done || !strings.Contains(out, want) {
			t.Errorf("port %s: status %d, out\n%s", port, status, out)
		}
	}
	status, out, _ := decodeFile(t, pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet,
		wrapped(frames[:1], etherHead...)))
	if status != cli.Done ||
		!strings.Contains(out, "no packet looks like eRPC; if one should, name its port with --port") {
		t.Errorf("status %d, out %q", status, out)
	}
}

// TestDecodeCut: what a snapshot length cut off is not taken for missing.
func TestDecodeCut(t *testing.T) {
	frames, _ := sample(t)
	var b []byte
	for i, f := range wrapped([][]byte{frames[1], frames[2], frames[4], frames[7], frames[7]},
		etherHead...) {
		one := pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, [][]byte{f[:14+28+24]})
		if i == 4 {
			one = pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, [][]byte{f[:14+28+20]})
		}
		binary.LittleEndian.PutUint32(one[24+12:], uint32(len(f)))
		if i > 0 {
			one = one[24:]
		}
		b = append(b, one...)
	}
	status, out, _ := decodeFile(t, b)
	lines := strings.Split(out, "\n")
	for i, want := range []string{
		"MGMT CONNECT session=none req=0 pkt=0 size=64 data=0 flags=- token=[0-9a-f]* captured=24",
		"REQ session=9 req=1099511627776 pkt=2 size=5000 data=4 reqtype=3 flags=- try=5 token=deadbeef " +
			"captured=24",
		"RESP session=1 req=0 pkt=0 size=4 data=4 flags=- hold=6.4us token=00000001 " +
			"captured=24",
		"ERR session=1 req=0 pkt=0 size=20 data=20 flags=LATE,CUT=1232 hold=6.4us " +
			"token=00000001 captured=24",
		`MALFORMED bytes=44 why="cut short by the capture" captured=20`,
	} {
		if at := strings.Index(lines[i], strings.Split(want, " ")[0]); at < 0 ||
			!matches(lines[i][at:], want) {
			t.Errorf("line %d: %s\nwant %s", i, lines[i], want)
		}
	}
	if status != cli.Done {
		t.Errorf("status %d", status)
	}
}

// matches is equality, where one "[0-9a-f]*" in want stands for anything.
func matches(got, want string) bool {
	head, tail, wild := strings.Cut(want, "[0-9a-f]*")
	if !wild {
		return got == want
	}
	return strings.HasPrefix(got, head) && strings.HasSuffix(got, tail)
}

func TestDecodeBadFiles(t *testing.T) {
	frames, _ := sample(t)
	good := pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet,
		wrapped(frames[1:3], etherHead...))
	ng := pcapngFile(t, layers.LinkTypeEthernet, wrapped(frames[1:3], etherHead...))
	first := 24 + 16 + len(frames[1]) + 14
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint32(huge[first+8:], 1<<31)
	longer := bytes.Clone(good)
	binary.LittleEndian.PutUint32(longer[first+12:], 1)
	for name, x := range map[string]struct {
		file  []byte
		want  string
		lines int // printed before
	}{
		"empty":       {nil, "is no capture: only 0 bytes", 0},
		"three bytes": {[]byte("abc"), "is no capture: only 3 bytes", 0},
		"text":        {[]byte("hello, world"), "is no capture: it begins with 68 65 6c 6c", 0},
		"header cut":  {good[:20], "is no sound pcap file: unexpected EOF", 0},
		"version": {append(append(bytes.Clone(good[:4]), 3, 0), good[6:]...),
			"Unknown major version 3", 0},
		"link type": {pcapFile(binary.LittleEndian, true, 147, frames),
			"link type 147, which is not understood", 0},
		"large link": {pcapFile(binary.LittleEndian, true, 0xFFFF, frames),
			"link type 65535, which is not understood", 0},
		"link type, ng":  {pcapngFile(t, 147, frames), "link type 147, which is not understood", 0},
		"record cut":     {good[:len(good)-1], "is cut off after 1 packets", 1},
		"only a header":  {good[:first+16], "is cut off after 1 packets", 1},
		"half a header":  {good[:first+3], "is cut off after 1 packets", 1},
		"huge record":    {huge, "is damaged after 1 packets", 1},
		"wrong lengths":  {longer, "is damaged after 1 packets", 1},
		"pcapng, header": {ng[:10], "is no sound pcapng file: unexpected EOF", 0},
		"pcapng, cut":    {ng[:len(ng)-8], "is cut off after 1 packets", 1},
	} {
		status, out, errOut := decodeFile(t, x.file)
		if status != cli.Failed || !oneLineWith(errOut, "FILE ") || !strings.Contains(errOut, x.want) ||
			strings.Count(out, "10.0.0.1:40000") != x.lines {
			t.Errorf("%s: status %d, err %q, out %q; want %q", name, status, errOut, out, x.want)
		}
		if status, out, _ = decodeFile(t, x.file, "--json"); x.lines > 0 {
			var d decoded
			decodeOne(t, out, &d)
			if status != cli.Failed || !strings.Contains(d.Error, x.want) || len(d.Packets) != x.lines {
				t.Errorf("%s: status %d, %q", name, status, out)
			}
		}
	}
	missing := filepath.Join(t.TempDir(), "none")
	if status, _, errOut := runCommand(t, "decode "+missing); status != cli.Failed ||
		!oneLineWith(errOut, missing) {
		t.Errorf("a file that is not there: status %d, err %q", status, errOut)
	}
}

// FuzzDecode: whatever the file, the command ends without a panic, in both forms of
// output, and --json prints one object if it prints anything.
func FuzzDecode(f *testing.F) {
	frames, _ := sample(f)
	ether := wrapped(frames, etherHead...)
	f.Add(pcapFile(binary.LittleEndian, true, layers.LinkTypeEthernet, ether[:3]))
	f.Add(pcapFile(binary.BigEndian, false, layers.LinkTypeRaw, frames[:3]))
	f.Add(pcapngFile(f, layers.LinkTypeEthernet, ether[:3]))
	f.Add(bundleFile(f, 87))
	f.Add(bundleFile(f, 40))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, c := range []decodeCmd{{File: "-"}, {File: "-", JSON: true}, {File: "-", Port: 40000}} {
			var out bytes.Buffer
			err := c.Run(&env{ctx: t.Context(), in: bytes.NewReader(file), out: &out})
			if err == nil && out.Len() == 0 || c.JSON && out.Len() > 0 && !json.Valid(out.Bytes()) {
				t.Fatalf("error %v, out %q", err, out.String())
			}
		}
	})
}

// decodeCapture decodes a capture that a command made; nothing in it may be malformed.
func decodeCapture(t *testing.T, name string) decoded {
	t.Helper()
	status, out, errOut := runCommand(t, "decode --json "+name)
	if status != cli.Done {
		t.Fatalf("decode %s: status %d, err %q", name, status, errOut)
	}
	var d decoded
	decodeOne(t, out, &d)
	if d.Malformed != 0 || d.Other != 0 || d.Erpc == 0 || d.Erpc != d.decodeSummary.Packets {
		t.Errorf("%s: %+v", name, d.decodeSummary)
	}
	return d
}

// TestPcapFlag: both ends of a conversation capture the same packets.
func TestPcapFlag(t *testing.T) {
	dir := t.TempDir()
	server := start(t, "server --addr 127.0.0.1:0 --json --pcap "+dir+"/server.pcap")
	var ready readyLine
	decodeOne(t, waitFor(t, server.out, "ready"), &ready)
	status, _, errOut := runCommand(t, "ping "+ready.Addr+" --count 3 --interval 1ms --pcap "+dir+
		"/ping.pcap")
	if status != cli.Done || !strings.Contains(errOut, "packets captured in "+dir+"/ping.pcap") {
		t.Fatalf("ping: status %d, err %q", status, errOut)
	}
	if _, err := server.interrupt(t); err != nil {
		t.Fatal(err)
	}
	one, other := decodeCapture(t, dir+"/ping.pcap"), decodeCapture(t, dir+"/server.pcap")
	if one.Types["REQ"] < 4 || one.Types["RESP"] < 4 || one.Types["REQ"] != other.Types["REQ"] ||
		one.Types["RESP"] != other.Types["RESP"] {
		t.Errorf("client %v, server %v", one.Types, other.Types)
	}
	for _, p := range one.Packets {
		if p.Type == "BUNDLE" {
			continue
		}
		if (p.Type == "REQ") != (p.Dst == ready.Addr && p.Op == "") ||
			p.Src != ready.Addr && p.Dst != ready.Addr {
			t.Errorf("%s: server is %s", p.text(), ready.Addr)
		}
	}
}

// TestPcapFlagOfOthers: benches, the demonstration, other transports, several threads.
func TestPcapFlagOfOthers(t *testing.T) {
	list := []string{
		"bench latency --raw --rounds 2 --duration 20ms --json" + gentle, // raw packets are not captured
		"bench rate --threads 2 --duration 20ms --snaplen 160 --json" + gentle,
		"bench bandwidth --size 1000000 --duration 20ms --json --snaplen 200" + gentle,
	}
	if runtime.GOOS == "linux" {
		list = append(list, "demo --each 10ms --transport shm --json",
			"bench latency --duration 10ms --transport auto --json"+gentle)
	}
	for _, l := range some(2, list...) {
		name := filepath.Join(t.TempDir(), "x.pcap")
		status, _, errOut := runCommand(t, l+" --pcap "+name)
		if status != cli.Done || !strings.Contains(errOut, "packets captured in") {
			t.Errorf("%s: status %d, err %q", l, status, errOut)
			continue
		}
		if d := decodeCapture(t, name); d.Types["REQ"] == 0 || d.Types["RESP"] == 0 ||
			d.Types["MGMT"] == 0 {
			t.Errorf("%s: %v", l, d.Types)
		}
	}
}

// TestPcapFails: a capture that cannot begin stops the command, one that ends early does
// not stop the traffic.
func TestPcapFails(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none", "x")
	if status, _, errOut := runCommand(t, "ping 127.0.0.1:9 --count 1 --pcap "+
		none); status != cli.Failed || !oneLineWith(errOut, "--pcap: open "+none) {
		t.Errorf("status %d, err %q", status, errOut)
	}
	// The handshake of a ping that nobody answers is in the capture.
	name := filepath.Join(t.TempDir(), "x.pcap")
	if status, _, _ := runCommand(t, "ping 127.0.0.1:9 --count 1 --pcap "+name); status != cli.Failed {
		t.Errorf("status %d", status)
	}
	if d := decodeCapture(t, name); d.Types["MGMT"] == 0 || d.Packets[0].Op != "CONNECT" {
		t.Errorf("%+v", d.decodeSummary)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	status, out, errOut := runCommand(t, "bench latency --duration 20ms --json --pcap /dev/full"+
		gentle)
	var r result
	decodeOne(t, out, &r)
	if status != cli.Failed || r.Rpcs == 0 || r.Errors != 0 ||
		!strings.Contains(errOut, "capture ended: write /dev/full") {
		t.Errorf("status %d, err %q, %+v", status, errOut, r)
	}
}
