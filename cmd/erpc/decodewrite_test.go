package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/wire"
)

var update = flag.Bool("update", false, "write testdata/plain.pcapng anew")

const sealedArgs = "decode testdata/sealed.pcap --keylog testdata/sealed.keys"

// TestDecodeWrite: the capture of "erpc ping" over mutual TLS in plaintext is the one that the
// dissector's test reads, and is decoded like the sealed one, without a key log.
func TestDecodeWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "plain.pcapng")
	status, out, errOut := runCommand(t, sealedArgs+" --write "+name)
	want, err := os.ReadFile("testdata/sealed.txt")
	if err != nil {
		t.Fatal(err)
	}
	said := "10 packets of " + name + " are in plaintext, 0 stay sealed\n"
	if status != cli.Done || out != string(want) || errOut != said {
		t.Errorf("status %d, %s%s", status, out, errOut)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/plain.pcapng", got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile("testdata/plain.pcapng"); err != nil || !bytes.Equal(got, kept) {
		t.Errorf("not testdata/plain.pcapng (go test ./cmd/erpc -update): %v", err)
	}
	if f, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && f.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", f.Mode(), err)
	}

	var lines strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(string(want), "testdata/sealed.pcap", name)) {
		line, _, sealed := strings.Cut(line, " counter=")
		if lines.WriteString(line); sealed {
			lines.WriteString("\n")
		}
	}
	for _, keys := range []string{"", " --keylog testdata/sealed.keys"} {
		status, out, errOut = runCommand(t, "decode "+name+keys)
		if status != cli.Done || out != lines.String() || errOut != "" {
			t.Errorf("with %q: status %d, %s%s", keys, status, out, errOut)
		}
	}
}

// sealer seals packets of a client, and of a stranger, whose secret is in no key log.
type sealer struct {
	client, stranger *security.Association
	keys             []byte // the key log
}

func newSealer(t *testing.T) *sealer {
	s := &security.Secrets{AEAD: security.AES128GCM, Client: security.Secret{1}}
	client, err := security.NewAssociation(s, true)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := security.NewAssociation(&security.Secrets{AEAD: security.AES128GCM,
		Client: security.Secret{2}}, true)
	if err != nil {
		t.Fatal(err)
	}
	client.Address(5<<24 | 7)
	stranger.Address(5<<24 | 7)
	return &sealer{client, stranger, s.AppendKeyLog(nil, 1, 9, 5<<24|7)}
}

// request is a packet of n bytes.
func request(t *testing.T, n int) []byte {
	n -= wire.HeaderSize
	return erpcPacket(t, wire.Header{Type: wire.TypeReq, ReqType: 3, MsgSize: uint32(n), Session: 9,
		ReqNum: 8}, 0xDEADBEEF, nil, strings.Repeat("x", n))
}

// framing makes frames around UDP packets.
type framing struct {
	name  string
	link  layers.LinkType
	sizes []int // of the packets inside, bytes
	keep  bool  // opened packets cannot be rewritten
	frame func(payload []byte) []byte
}

// stack makes frames of layers. The lengths and checksums are gopacket's.
func stack(t *testing.T, list ...gopacket.SerializableLayer) func(payload []byte) []byte {
	return func(payload []byte) []byte {
		b := gopacket.NewSerializeBuffer()
		all := append(slices.Clone(list), gopacket.Payload(payload))
		for i, l := range all {
			if ip, ok := l.(*layers.IPv6); ok { // after a jumbogram its options would stay
				again := *ip
				all[i] = &again
			}
		}
		for i, l := range all {
			if udp, ok := l.(*layers.UDP); ok {
				_ = udp.SetNetworkLayerForChecksum(all[i-1].(gopacket.NetworkLayer))
			}
		}
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true,
			ComputeChecksums: true}, all...); err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(b.Bytes())
	}
}

// framings are the frames that a capture may have around UDP.
func framings(t *testing.T) []framing {
	ip4 := func(protocol layers.IPProtocol, more ...layers.IPv4Option) *layers.IPv4 {
		return &layers.IPv4{Version: 4, TTL: 9, Protocol: protocol, Id: 77, Options: more,
			SrcIP: netip.MustParseAddr("10.1.2.3").AsSlice(),
			DstIP: netip.MustParseAddr("10.4.5.6").AsSlice()}
	}
	ip6 := &layers.IPv6{Version: 6, HopLimit: 3, TrafficClass: 2, NextHeader: layers.IPProtocolUDP,
		SrcIP: netip.MustParseAddr("2001:db8::1").AsSlice(),
		DstIP: netip.MustParseAddr("2001:db8::2").AsSlice()}
	udp := &layers.UDP{SrcPort: 41000, DstPort: 31850}
	ether := func(kind layers.EthernetType) *layers.Ethernet {
		return &layers.Ethernet{SrcMAC: etherHead[:6], DstMAC: etherHead[6:12], EthernetType: kind}
	}
	v4, v6 := ether(layers.EthernetTypeIPv4), ether(layers.EthernetTypeIPv6)
	plain := ip4(layers.IPProtocolUDP)
	sll := []byte{0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0}
	sizes := []int{24, 25, 56, 1001, 1452}
	return []framing{
		{"IPv4", layers.LinkTypeEthernet, append(sizes, 65479), false, stack(t, v4, plain, udp)},
		{"IPv4 with options", layers.LinkTypeEthernet, sizes, false, stack(t, v4,
			ip4(layers.IPProtocolUDP, layers.IPv4Option{OptionType: 148, OptionLength: 4,
				OptionData: []byte{0, 0}}), udp)},
		{"VLAN", layers.LinkTypeEthernet, sizes, false, stack(t, ether(layers.EthernetTypeDot1Q),
			&layers.Dot1Q{VLANIdentifier: 5, Type: layers.EthernetTypeIPv4}, plain, udp)},
		{"raw", layers.LinkTypeRaw, sizes, false, stack(t, plain, udp)},
		{"any interface", layers.LinkTypeLinuxSLL, sizes, false, func(payload []byte) []byte {
			return append(bytes.Clone(sll), stack(t, plain, udp)(payload)...)
		}},
		{"loopback", layers.LinkTypeNull, sizes, false,
			stack(t, &layers.Loopback{Family: layers.ProtocolFamilyIPv4}, plain, udp)},
		{"IPv6", layers.LinkTypeEthernet, append(sizes, 65500), false, stack(t, v6, ip6, udp)},
		{"jumbogram", layers.LinkTypeEthernet, []int{65508, 65526, 65527, 65528, 65529, 90000}, false,
			stack(t, v6, ip6, udp)},
		{"padded", layers.LinkTypeEthernet, sizes, false, stack(t, v4, plain, udp)},
		{"tunnel", layers.LinkTypeEthernet, sizes, true,
			stack(t, v4, ip4(layers.IPProtocolIPv4), plain, udp)},
	}
}

// TestDecodeWriteFrames: around the plaintext the frames are those that gopacket makes around
// packets that were never sealed. Those that cannot be opened, frames of other protocols, and
// frames that were cut are as they were.
func TestDecodeWriteFrames(t *testing.T) {
	for _, s := range framings(t) {
		t.Run(s.name, func(t *testing.T) {
			seal := newSealer(t)
			var in, want [][]byte
			for _, n := range s.sizes {
				pkt := request(t, n)
				out, _ := seal.client.Seal(nil, pkt, nil)
				in, want = append(in, s.frame(out)), append(want, s.frame(pkt))
				if s.keep {
					want[len(want)-1] = in[len(in)-1]
				}
				if s.name == "padded" { // by bytes that Ethernet may have behind the packet
					in[len(in)-1] = append(in[len(in)-1], 1, 2, 3)
				}
			}
			foreign, _ := seal.stranger.Seal(nil, request(t, 60), nil)
			other := bytes.Repeat([]byte{0xEE}, 40)
			in, want = append(in, s.frame(foreign), other), append(want, s.frame(foreign), other)
			opened, left := len(s.sizes), 1
			if s.keep {
				opened, left = 0, left+opened
			}
			file, said := writePlain(t, seal.keys, pcapFile(binary.LittleEndian, true, s.link, in))
			if w := fmt.Sprintf("%d packets of FILE are in plaintext, %d stay sealed\n",
				opened, left); said != w {
				t.Errorf("%q, want %q", said, w)
			}
			checkFrames(t, file, s.link, want)
		})
	}
}

// TestDecodeWriteFields: the length of a jumbogram is found among other options, a checksum of UDP
// is never the 0 that means none, and IPv4 has no length for a packet of 64 KiB.
func TestDecodeWriteFields(t *testing.T) {
	options := []byte{17, 1, 0, 1, 1, 9, 0xC2, 4, 1, 1, 1, 1, 1, 2, 8, 8}
	want := []byte{17, 1, 0, 1, 1, 9, 0xC2, 4, 0, 2, 3, 4, 1, 2, 8, 8}
	if setJumbo(options, 0x020304); !bytes.Equal(options, want) {
		t.Errorf("% x", options)
	}
	pkt, most := make([]byte, udpHeader+2), 0
	for v := range 1 << 16 {
		binary.BigEndian.PutUint16(pkt[udpHeader:], uint16(v))
		fitUDP(pkt, []byte{10, 0, 0, 1, 10, 0, 0, 2})
		switch binary.BigEndian.Uint16(pkt[6:]) {
		case 0:
			t.Fatalf("payload %#x: no checksum", v)
		case 0xFFFF:
			most++
		}
	}
	if most != 1 {
		t.Errorf("checksum 0xFFFF %d times", most)
	}
	head := udpFrame(t, testClient, testServer, nil)
	for size, fits := range map[int]bool{65535: true, 65536: false} {
		frame := append(bytes.Clone(head), make([]byte, size-len(head))...)
		if out := fitted(frame, 0, 20); (out != nil) != fits {
			t.Errorf("a packet of %d bytes", size)
		}
	}
}

// writePlain runs decode --write on a capture with a key log, and returns what it wrote and said.
func writePlain(t *testing.T, keys, capture []byte) (file []byte, said string) {
	t.Helper()
	dir := t.TempDir()
	in, log, out := filepath.Join(dir, "in"), filepath.Join(dir, "keys"), filepath.Join(dir, "out")
	for name, b := range map[string][]byte{in: capture, log: keys} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, shown, said := runCommand(t, "decode "+in+" --keylog "+log+" --write "+out)
	if status != cli.Done {
		t.Fatalf("status %d, %s%s", status, shown, said)
	}
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return file, strings.ReplaceAll(said, out, "FILE")
}

// checkFrames compares the frames of a capture, whose times are those of pcapFile.
func checkFrames(t *testing.T, file []byte, link layers.LinkType, want [][]byte) {
	t.Helper()
	c, err := openCapture(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		if _, _, err := c.next(); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if !bytes.Equal(c.frame, w) || c.frameLink != link || c.info.Length != len(w) ||
			!c.info.Timestamp.Equal(stamp(i)) {
			t.Errorf("frame %d, %d bytes of %d, link %v: % .120x\nwant %d: % .120x", i, len(c.frame),
				c.info.Length, c.frameLink, c.frame, len(w), w)
		}
	}
	if _, _, err := c.next(); err == nil {
		t.Error("there are more frames")
	}
}

// TestDecodeWriteMixed: interfaces of several link types stay so, and cut frames stay cut.
func TestDecodeWriteMixed(t *testing.T) {
	seal := newSealer(t)
	pkt := request(t, 100)
	first, _ := seal.client.Seal(nil, pkt, nil)
	second, _ := seal.client.Seal(nil, pkt, nil)
	from, to := "10.0.0.1:7", "10.0.0.2:8"
	frames := [][]byte{
		append(bytes.Clone(etherHead), udpFrame(t, from, to, first)...), udpFrame(t, from, to, second),
	}
	links := []layers.LinkType{layers.LinkTypeEthernet, layers.LinkTypeRaw}
	file, said := writePlain(t, seal.keys, mixedFile(t, links, frames, 9))
	if !strings.HasPrefix(said, "1 packets of FILE are in plaintext, 1 stay ") {
		t.Error(said)
	}
	c, err := openCapture(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{append(bytes.Clone(etherHead), udpFrame(t, from, to, pkt)...),
		frames[1][:len(frames[1])-9]}
	for i, w := range want {
		_, _, err := c.next()
		missing := c.info.Length - c.info.CaptureLength
		if err != nil || c.frameLink != links[i] || !bytes.Equal(c.frame, w) || missing != 9*i {
			t.Errorf("frame %d: %v, link %v, %d missing, % x", i, err, c.frameLink, missing, c.frame)
		}
	}
}

// TestDecodeWriteMistakes: each has one line, and nothing that is needed is emptied.
func TestDecodeWriteMistakes(t *testing.T) {
	dir := t.TempDir()
	in, keys := filepath.Join(dir, "sealed.pcap"), filepath.Join(dir, "keys")
	for to, from := range map[string]string{in: "testdata/sealed.pcap", keys: "testdata/sealed.keys"} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Link(in, link); err != nil {
		t.Fatal(err)
	}
	good := "decode " + in + " --keylog " + keys
	for args, want := range map[string]string{
		"decode " + in + " --write " + filepath.Join(dir, "x"): "--write needs --keylog",
		good + " --write " + in:                                "that is the capture itself",
		good + " --write " + link:                              "that is the capture itself",
		good + " --write " + keys:                              "that is the key log",
		good + " --write -":                                    "standard output has the lines",
	} {
		checkUsage(t, args, want)
	}
	status, out, errOut := runCommand(t, good+" --write "+filepath.Join(dir, "none", "x"))
	if status != cli.Failed || out != "" || !strings.Contains(errOut, "--write: open ") {
		t.Errorf("status %d, %s%s", status, out, errOut)
	}
	if runtime.GOOS == "linux" {
		status, _, errOut = runCommand(t, good+" --write /dev/full")
		if status != cli.Failed || !strings.Contains(errOut, "--write: write /dev/full: no space") {
			t.Errorf("status %d, %s", status, errOut)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
	if status, out, errOut := runCommand(t, good); strings.Count(out, "counter=") != 10 {
		t.Errorf("the files have changed: status %d, %s%s", status, out, errOut)
	}
}

// TestDecodeWriteCutOff: what comes before the end of a damaged capture is written.
func TestDecodeWriteCutOff(t *testing.T) {
	whole, err := os.ReadFile("testdata/sealed.pcap")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for size, want := range map[int]string{
		len(whole) - 5: "14 packets, 14 eRPC", 24: "0 packets, 0 eRPC",
	} {
		if err := os.WriteFile(in, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		status, _, errOut := runCommand(t, "decode "+in+" --keylog testdata/sealed.keys --write "+out)
		if cut := size > 24; cut != (status == cli.Failed) ||
			cut && !strings.Contains(errOut, in+" is cut off after 14 packets") {
			t.Errorf("status %d, %s", status, errOut)
		}
		if status, shown, errOut := runCommand(t, "decode "+out); status != cli.Done ||
			!strings.Contains(shown, want) {
			t.Errorf("status %d, %s%s", status, shown, errOut)
		}
	}
}

// mixedFile is a pcapng file with one frame of each link type. The second one lacks some bytes.
func mixedFile(t *testing.T, links []layers.LinkType, frames [][]byte, cut int) []byte {
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriter(&b, links[0])
	if err == nil {
		_, err = w.AddInterface(pcapgo.NgInterface{LinkType: links[1]})
	}
	for i, f := range frames {
		if err == nil {
			n := len(f) - i*cut
			err = w.WritePacket(gopacket.CaptureInfo{Timestamp: stamp(i), CaptureLength: n,
				Length: len(f), InterfaceIndex: i}, f[:n])
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
