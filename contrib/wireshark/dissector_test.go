// Package wireshark tests the dissector erpc.lua, by tshark, against package wire.
package wireshark

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/pcap"
	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

// tool returns the path of a program, or ends the test: with a failure in CI, where
// .ci/run installs it, else by skipping.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing, and CI=true: .ci/run installs it", name)
	default:
		t.Skipf("%s is missing: apt-get install %s", name, name)
	}
	return path
}

// sink is a transport that takes everything.
type sink struct {
	transport.Transport
	local transport.Addr
}

func (s sink) LocalAddr() transport.Addr                     { return s.local }
func (s sink) Caps() transport.Caps                          { return transport.Caps{MTU: 1 << 20} }
func (s sink) TxBurst(items []transport.TxItem) (int, error) { return len(items), nil }
func addr(text string) transport.Addr {
	return transport.AddrFrom(netip.MustParseAddrPort(text), 0)
}
func send(tr transport.Transport, dst transport.Addr, pkt []byte) {
	_, _ = tr.TxBurst([]transport.TxItem{{Dst: dst, Data: pkt}})
}

// record makes a capture of what make sends through the function that it is given.
func record(t *testing.T, cfg pcap.Config,
	make func(send func(src, dst string, pkt []byte))) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "x.pcap")
	cfg.Block = true
	c, err := pcap.Create(file, cfg)
	if err != nil {
		t.Fatal(err)
	}
	make(func(src, dst string, pkt []byte) { send(c.Wrap(sink{local: addr(src)}), addr(dst), pkt) })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// fields are those that tshark is asked for.
var fields = []string{"erpc.version", "erpc.type", "erpc.reqtype", "erpc.host_delay",
	"erpc.host_delay_ns", "erpc.hole.first", "erpc.hole.count", "erpc.op", "erpc.hold",
	"erpc.try", "erpc.hold_ns", "erpc.size", "erpc.flags",
	"erpc.flags.ce", "erpc.flags.quiet", "erpc.flags.gap", "erpc.flags.late", "erpc.flags.keep",
	"erpc.flags.cut", "erpc.left_ns", "erpc.session", "erpc.loop", "erpc.phase", "erpc.token",
	"erpc.sealed.counter", "erpc.sealed.index", "erpc.sealed.loop", "erpc.sealed.phase",
	"erpc.sealed.data", "erpc.quote", "erpc.offset", "erpc.ack",
	"erpc.reqnum", "erpc.pktnum", "erpc.data_len", "erpc.data", "erpc.error_status", "erpc.error_code",
	"erpc.error_ran", "erpc.error_text", "erpc.error_details", "erpc.error_malformed",
	"erpc.nonce", "erpc.epoch", "erpc.from_session", "erpc.from_loop", "erpc.from_token",
	"erpc.credits", "erpc.slots", "erpc.mtu", "erpc.waiting", "erpc.features", "erpc.ext.type",
	"erpc.ext.value", "erpc.version_asked", "erpc.version_least", "erpc.version_most",
	"erpc.max_message", "erpc.checksum", "erpc.cookie", "erpc.code", "erpc.seq", "erpc.to_token",
	"erpc.padding_len", "erpc.malformed",
	"erpc.bundles", "erpc.bundle.count", "erpc.bundle.content", "erpc.bundle.another",
	"erpc.bundle.whole",
	"udp.srcport", "udp.dstport", "udp.checksum.status", "ip.checksum.status",
	"_ws.malformed", "_ws.lua.error"}

// tshark runs tshark with the dissector and returns what it prints.
func tshark(t *testing.T, file string, args ...string) string {
	t.Helper()
	args = append([]string{
		"-n", "-r", file, "-X", "lua_script:erpc.lua", "-o", "udp.check_checksum:TRUE",
	}, args...)
	cmd := exec.Command(tool(t, "tshark"), args...)
	// Settings of the user who runs the test must not count.
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if err != nil || strings.Contains(strings.ToLower(errOut.String()), "lua") {
		t.Fatalf("tshark: %v: %s", err, errOut.String())
	}
	return out.String()
}

// dissect returns the fields that tshark shows of each packet.
func dissect(t *testing.T, file string, args ...string) (rows []map[string]string) {
	t.Helper()
	args = append([]string{"-T", "fields", "-E", "separator=/t", "-E", "occurrence=a"}, args...)
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	for line := range strings.Lines(tshark(t, file, args...)) {
		row := map[string]string{}
		for i, v := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			if v != "" {
				row[fields[i]] = v
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// golden returns the packets whose bytes package wire keeps.
func golden(t *testing.T) (packets [][]byte) {
	t.Helper()
	var text []byte
	for _, version := range []string{"2", "3"} {
		b, err := os.ReadFile("../../wire/testdata/packets" + version + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			packets = append(packets, nil)
			continue
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(line)[1:], ""))
		if err != nil {
			t.Fatal(err)
		}
		packets[len(packets)-1] = append(packets[len(packets)-1], b...)
	}
	return packets
}

// packets returns golden packets and random ones: sound, and with some bytes changed.
func packets(t *testing.T, n int) [][]byte {
	list := golden(t)
	for _, pkt := range golden(t) { // one byte short, and with sizes that are one off
		smaller, larger, at := bytes.Clone(pkt), bytes.Clone(pkt), 4
		if wire.IsBundle(pkt) {
			at = 2
			list = append(list, bundleBits(pkt)...)
		}
		smaller[at]--
		larger[at]++
		list = append(list, pkt[:len(pkt)-1], smaller, larger)
	}
	for _, size := range [][2]int{ // of an ERR's text and all of its body, at the limits and beyond
		{0, 7}, {0, 8}, {512, 1000}, {512, 1001}, {513, 521}, {512, 520}, {0, 488}, {0, 489}, {2, 9},
	} {
		pkt := make([]byte, wire.HeaderSize+size[1])
		h := wire.Header{Type: wire.TypeErr, MsgSize: uint32(size[1])}
		h.Put(pkt, 0)
		body := append([]byte{1, 1, 0, 0, byte(size[0]), byte(size[0] >> 8), 0, 0},
			bytes.Repeat([]byte("x"), size[1])...)
		copy(pkt[wire.HeaderSize:], body)
		list = append(list, pkt)
	}
	for _, op := range []wire.Op{wire.OpDisconnect, wire.OpDrain, wire.OpPing} {
		for cut := range 2 { // what follows the body of a Drain need not be sound
			body := wire.AppendNumber(wire.AppendTaken(make([]byte, wire.AliveSize), 1), 8)
			h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(op), MsgSize: uint32(len(body) - cut)}
			pkt := append(make([]byte, wire.HeaderSize), body...)
			h.Put(pkt, 0)
			list = append(list, pkt)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for len(list) < n {
		if rng.IntN(4) == 0 {
			list = append(list, randomBundle(rng))
			continue
		}
		pkt := make([]byte, wire.HeaderSize+rng.IntN(60))
		for i := range pkt {
			pkt[i] = byte(rng.Uint32())
		}
		h := wire.Header{Type: randomTypes[rng.IntN(len(randomTypes))],
			ReqType: uint8(rng.IntN(255)), Hold: uint16(rng.Uint32()), PktNum: randomPacket(rng),
			Version: randomVersion(rng),
			MsgSize: rng.Uint32N(wire.MaxMsgSize), Session: randomSession(rng),
			ReqNum: rng.Uint64N(wire.MaxReqNum)}
		switch h.Type {
		case wire.TypeRFR, wire.TypeCR:
			pkt = pkt[:wire.HeaderSize]
		case wire.TypeWait, wire.TypePast, wire.TypeCancel, wire.TypeAck:
			pkt, h.MsgSize = pkt[:wire.HeaderSize], 0
		case wire.TypeErr:
			if rng.IntN(8) > 0 {
				pkt = randomError(rng, pkt[:wire.HeaderSize])
			}
			h.MsgSize = uint32(len(pkt) - wire.HeaderSize)
		}
		if carries := h.Type == wire.TypeReq || h.Type == wire.TypeResp; carries && rng.IntN(2) == 0 {
			h.MsgSize = uint32(len(pkt) - wire.HeaderSize)
		}
		if rng.IntN(3) == 0 {
			h.Hold |= 0xFFC0 // longer than it can say
		}
		if h.Type == wire.TypeCR && rng.IntN(2) == 0 {
			pkt = randomHoles(rng, pkt)
			h.MsgSize = uint32(len(pkt)-wire.HeaderSize) + rng.Uint32N(2)*rng.Uint32N(2)
		}
		if h.Flags = wire.Flags(rng.IntN(16)); rng.IntN(4) > 0 {
			h.Flags &= randomFlags[h.Type]
		}
		h.Put(pkt, rng.Uint32())
		switch rng.IntN(6) {
		case 0: // one wrong bit in the fields that are checked
			bit := []int{0, 1, 2, 4, 5, 8 + rng.IntN(8), 32 + rng.IntN(32), 64 + rng.IntN(32)}[rng.IntN(8)]
			pkt[bit/8] ^= 1 << (bit % 8)
		case 1:
			pkt = pkt[:rng.IntN(len(pkt))]
		case 2:
			pkt[1] = 255
		case 3:
			binary.LittleEndian.PutUint32(pkt[8:], wire.NoSession|wire.FirstOf(uint8(rng.IntN(2))))
		}
		list = append(list, pkt)
	}
	return list
}

// randomSession returns a session of no loop, or of any.
func randomSession(rng *rand.Rand) uint32 {
	return rng.Uint32N(wire.NoSession) | wire.FirstOf(uint8(rng.IntN(2)*rng.IntN(wire.MaxLoop+1)))
}

// randomTypes are those of random packets; operations come from the golden ones.
var randomTypes = []wire.Type{
	wire.TypeReq, wire.TypeRFR, wire.TypeCR, wire.TypeResp, wire.TypeErr, wire.TypeWait,
	wire.TypePast, wire.TypeCancel, wire.TypeAck,
}

// randomVersion returns one of the versions, randomPacket a packet number, often one that a
// response can begin with.
func randomVersion(rng *rand.Rand) uint8 { return wire.OldVersion + uint8(rng.IntN(2)) }
func randomPacket(rng *rand.Rand) uint32 {
	if rng.IntN(4) == 0 {
		return rng.Uint32N(wire.MaxPackets)
	}
	return uint32(rng.IntN(3))
}

// randomHoles appends a list of holes to b, which is often sound.
func randomHoles(rng *rand.Rand, b []byte) []byte {
	for at := uint32(0); rng.IntN(4) > 0; {
		first, n := at+rng.Uint32N(3000), 1+rng.Uint32N(wire.MaxHole)
		b = wire.AppendHole(b, first, n)
		at = first + n + 1 - rng.Uint32N(2)*rng.Uint32N(2)
	}
	return append(b, 1, 2, 3)[:len(b)+rng.IntN(9)/8*3]
}

// randomFlags are the flags that each type may have.
var randomFlags = map[wire.Type]wire.Flags{
	wire.TypeReq: 0b1110, wire.TypeRFR: 0b1100, wire.TypeCR: 0b1111, wire.TypeResp: 0b1111,
	wire.TypeErr: 0b1110, wire.TypeWait: 0b1111,
}

// randomError appends the body of an ERR to b: some have a byte that ParseError refuses.
func randomError(rng *rand.Rand, b []byte) []byte {
	at := len(b)
	b = wire.AppendError(b, &wire.Error{
		Status: wire.Status(1 + rng.IntN(16)), Code: wire.Code(1 + rng.IntN(255)),
		Ran: rng.IntN(2) == 0, Text: []byte("it broke")[:rng.IntN(9)],
		Details: []byte{1, 2, 3}[:rng.IntN(4)],
	})
	switch rng.IntN(16) {
	case 0:
		b[at] = []byte{0, 17}[rng.IntN(2)]
	case 1:
		b[at+1] = 0
	case 2:
		b[at+4] += byte(rng.IntN(6))
	case 3:
		b[at+2] |= 0xFE // this, and more, are of later versions
		b[at+3], b[at+6] = 1, 1
	}
	return b
}

// same compares values of a field; versions of tshark print truth as 1 or as True. Commas are
// between the values of the packets of a bundle.
func same(got, want string) bool {
	if g, w := strings.Split(got, ","), strings.Split(want, ","); len(w) > 1 {
		return slices.EqualFunc(g, w, same)
	}
	if want == "true" || want == "false" {
		is, err := strconv.ParseBool(got)
		return err == nil && is == (want == "true")
	}
	return got == want
}

// compare checks a row against what is expected. Of a malformed packet only the reason counts.
func compare(t *testing.T, i int, pkt []byte, row, want map[string]string) {
	t.Helper()
	_, malformed := want["erpc.malformed"]
	for _, f := range fields {
		if !strings.HasPrefix(f, "erpc.") || malformed && f != "erpc.malformed" {
			continue
		}
		got, w := row[f], want[f]
		if f == "erpc.error_text" && strings.ContainsFunc(w,
			func(r rune) bool { return r < ' ' || r > '~' }) {
			continue // shown in some other way
		}
		if !same(got, w) {
			t.Errorf("packet %d, % x: %s is %q, want %q", i, pkt, f, got, w)
		}
	}
	if row["_ws.malformed"] != "" || row["_ws.lua.error"] != "" {
		t.Errorf("packet %d, % x: the dissector failed: %v", i, pkt, row)
	}
	if status := row["udp.checksum.status"]; status != "1" && status != "Good" {
		t.Errorf("packet %d: the capture's UDP checksum is %q", i, status)
	}
}

// TestDissector: on the port of the server the dissector and package wire agree on every field
// of every packet, and on every reason why one is malformed; over IPv4 and IPv6.
func TestDissector(t *testing.T) {
	list := packets(t, 3000)
	file := record(t, pcap.Config{}, func(send func(src, dst string, pkt []byte)) {
		for i, pkt := range list {
			switch i % 3 {
			case 0:
				send("10.0.0.1:40000", "10.0.0.2:31850", pkt)
			case 1:
				send("10.0.0.2:31850", "10.0.0.1:40000", pkt)
			case 2:
				send("[2001:db8::1]:40000", "[2001:db8::2]:31850", pkt)
			}
		}
	})
	rows := dissect(t, file)
	if len(rows) != len(list) {
		t.Fatalf("%d rows for %d packets", len(rows), len(list))
	}
	var types layer.Types
	port := netip.MustParseAddrPort
	client, server := port("10.0.0.1:40000"), port("10.0.0.2:31850")
	client6, server6 := port("[2001:db8::1]:40000"), port("[2001:db8::2]:31850")
	reasons, kinds := map[string]int{}, map[string]int{}
	for i, pkt := range list {
		ends := [...][2]netip.AddrPort{{client, server}, {server, client}, {client6, server6}}[i%3]
		want := expect(pkt, func(e *layer.ERPC) (uint8, bool) { return types.Of(ends[0], ends[1], e) })
		if len(pkt) == 0 {
			want = map[string]string{} // Wireshark calls nobody for an empty datagram
		}
		compare(t, i, pkt, rows[i], want)
		reasons[want["erpc.malformed"]]++
		kind, _, _ := strings.Cut(want["erpc.type"], ",") // the first is that of the bundle
		kinds[kind+"/"+want["erpc.op"]]++
	}
	if len(reasons) != 1+9 || len(kinds) != 9+15+1+1+1+1 {
		t.Errorf("not every case is there: %v, %v", reasons, kinds)
	}
}

// TestHeuristic: on any other port exactly the sound packets are taken for eRPC, and after
// one of them the rest of its conversation. One that nobody opens may be anything: one in 256
// datagrams begins so.
func TestHeuristic(t *testing.T) {
	list := packets(t, 600)
	file := record(t, pcap.Config{}, func(send func(src, dst string, pkt []byte)) {
		for i, pkt := range list {
			send("10.0.0.1:"+strconv.Itoa(50000+i), "10.0.0.2:"+strconv.Itoa(51000+i), pkt)
		}
		send("10.0.0.1:50000", "10.0.0.2:51000", []byte("neither sound nor long"))
		send("10.0.0.1:50000", "10.0.0.2:51000", wire.AppendSealed(nil, 1, 2))
	})
	rows := dissect(t, file)
	if len(rows) != len(list)+2 {
		t.Fatalf("%d rows for %d packets", len(rows), len(list)+2)
	}
	taken := 0
	for i, pkt := range list {
		want := expect(pkt, unlearned)
		if _, malformed := want["erpc.malformed"]; malformed || wire.IsSealed(pkt) {
			want = map[string]string{}
		} else {
			taken++
		}
		compare(t, i, pkt, rows[i], want)
	}
	if taken < 100 || taken > 500 {
		t.Errorf("%d sound packets of %d: that tests little", taken, len(list))
	}
	if got := rows[len(list)]["erpc.malformed"]; got != "packet shorter than a header" {
		t.Errorf("in a conversation of eRPC: %q", got)
	}
	if got := rows[len(list)+1]["erpc.type"]; got != "11" {
		t.Errorf("a sealed packet in a conversation of eRPC: %q", got)
	}
}

// TestPort: the preference moves the port.
func TestPort(t *testing.T) {
	file := record(t, pcap.Config{}, func(send func(src, dst string, pkt []byte)) {
		send("10.0.0.1:50001", "10.0.0.2:50002", []byte("no header"))
		send("10.0.0.1:50001", "10.0.0.2:31850", []byte("no header"))
	})
	for pref, want := range map[string][2]bool{"31850": {false, true}, "50002": {true, false},
		"0": {false, false}} {
		rows := dissect(t, file, "-o", "erpc.port:"+pref)
		if len(rows) != 2 || (rows[0]["erpc.malformed"] != "") != want[0] ||
			(rows[1]["erpc.malformed"] != "") != want[1] {
			t.Errorf("port %s: %v", pref, rows)
		}
	}
	if rows := dissect(t, file, "-d", "udp.port==50001,erpc"); len(rows) != 2 ||
		rows[0]["erpc.malformed"] == "" {
		t.Errorf("decode as: %v", rows)
	}
}

// TestCut: what a snapshot length cut off is not taken for missing.
func TestCut(t *testing.T) {
	list := golden(t)
	file := record(t, pcap.Config{SnapLen: pcap.MinSnapLen},
		func(send func(src, dst string, pkt []byte)) {
			for _, pkt := range list {
				send("[2001:db8::1]:40000", "[2001:db8::2]:31850", pkt)
			}
		})
	rows := dissect(t, file)
	if len(rows) != len(list) {
		t.Fatalf("%d rows for %d packets", len(rows), len(list))
	}
	for i, pkt := range list {
		want := expect(pkt, unlearned)
		if wire.IsBundle(pkt) {
			want = expectBundle(pkt[:wire.HeaderSize], len(pkt), unlearned) // which has no packet to its end
		}
		for _, f := range []string{"erpc.type", "erpc.bundle.count", "erpc.size", "erpc.reqnum",
			"erpc.data_len", "erpc.padding_len", "erpc.hold_ns", "erpc.malformed"} {
			if rows[i][f] != want[f] {
				t.Errorf("packet %d, % x: %s is %q, want %q", i, pkt, f, rows[i][f], want[f])
			}
		}
	}
}

// TestTcpdump: tcpdump reads captures, whatever the size of the packets.
func TestTcpdump(t *testing.T) {
	tcpdump := tool(t, "tcpdump")
	sizes := []int{0, 24, 1400, 8952, 65507, 70000, 1 << 20}
	file := record(t, pcap.Config{}, func(send func(src, dst string, pkt []byte)) {
		for _, n := range sizes {
			send("10.0.0.1:1", "10.0.0.2:31850", make([]byte, n))
		}
	})
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// from standard input: tcpdump gives up its right to the file
	cmd := exec.Command(tcpdump, "-nn", "-tt", "-r", "-")
	cmd.Stdin = f
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != len(sizes) {
		t.Fatalf("%v, %d lines for %d packets:\n%s", err, len(lines), len(sizes), out)
	}
	for i, n := range sizes[:5] {
		if want := fmt.Sprintf("IP 10.0.0.1.1 > 10.0.0.2.31850: UDP, length %d",
			n); !strings.HasSuffix(lines[i], want) {
			t.Errorf("%q, want %q", lines[i], want)
		}
	}
}
