package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

// TestDecodeKeyLog: a capture of "erpc ping" over mutual TLS, with and without its key log.
func TestDecodeKeyLog(t *testing.T) {
	want, err := os.ReadFile("testdata/sealed.txt")
	if err != nil {
		t.Fatal(err)
	}
	const decode = "decode testdata/sealed.pcap"
	status, out, errOut := runCommand(t, decode+" --keylog testdata/sealed.keys")
	if n := strings.Count(out, "counter="); status != cli.Done || out != string(want) || n != 10 {
		t.Errorf("status %d, %d lines, %s%s", status, n, out, errOut)
	}
	status, out, errOut = runCommand(t, decode)
	if status != cli.Done || strings.Count(out, " SEALED bytes=") != 10 ||
		!strings.Contains(out, "(0 REQ, 0 RFR, 0 CR, 0 RESP, 5 MGMT, 10 SEALED), 0 malformed") {
		t.Errorf("without: status %d, %s%s", status, out, errOut)
	}
	status, out, errOut = runCommand(t, decode+" --keylog testdata/sealed.keys --json")
	var all struct{ Packets []line }
	if err := json.Unmarshal([]byte(out), &all); err != nil || status != cli.Done {
		t.Fatal(err, errOut)
	}
	last := all.Packets[len(all.Packets)-1]
	if s := last.Sealed; s == nil || s.Counter != 4 || s.Phase != 0 ||
		s.Index != "9e0000" || s.Bytes != last.Bytes+28 {
		t.Errorf("%+v, %+v", last, s)
	}
	for file, want := range map[string]string{
		"testdata/none":       "no such file",
		"testdata/sealed.txt": "no secret of eRPC in it",
	} {
		checkUsage(t, decode+" --keylog "+file, want)
	}
	bad := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(bad, []byte("x\nERPC_CLIENT_SECRET_1 12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkUsage(t, decode+" --keylog "+bad, "bad line in a key log: line 2")
}

// TestDecodeKeyLogLater: captures without an opening: packets and bundles of three associations
// between the same addresses, some under the same index, of several key phases, beside plain ones
// and damaged ones.
func TestDecodeKeyLogLater(t *testing.T) {
	var keys []byte
	var frames, plain [][]byte
	add := func(at int, pkt []byte) {
		if at == 0 {
			frames = append(frames, udpFrame(t, testClient, testServer, pkt))
		} else {
			frames = append(frames, udpFrame(t, testServer, testClient, pkt))
		}
	}
	for i := range 3 {
		s := &security.Secrets{AEAD: security.AES128GCM, Client: security.Secret{byte(i)}}
		s.Server[3] = byte(9 + i)
		keys = s.AppendKeyLog(keys, uint64(i), 0x020007, 5<<24|0x010000+uint32(i/2))
		var ends [2]*security.Association
		for j := range ends {
			ends[j], _ = security.NewAssociation(s, j == 0)
			ends[j].Address([2]uint32{5<<24 | 0x010000 + uint32(i/2), 0x020007}[j])
		}
		pkts := [2][]byte{
			erpcPacket(t, wire.Header{Type: wire.TypeReq, ReqType: 3, MsgSize: 4, Session: 9,
				ReqNum: 8}, 0xDEADBEEF, nil, "four"),
			erpcBundle(t),
		}
		for p := range 7 {
			for j, end := range ends {
				out, _ := end.Seal(nil, pkts[j], nil)
				if p >= 5 {
					add(j, out)
					plain = append(plain, pkts[j])
				}
				if _, err := ends[1-j].Open(bytes.Clone(out)); err != nil {
					t.Fatal(err)
				}
			}
			ends[0].Update()
		}
	}
	dir := t.TempDir()
	file, log := filepath.Join(dir, "x.pcap"), filepath.Join(dir, "keys")
	frames = append(frames, udpFrame(t, testClient, "10.0.0.7:9", plain[0]))
	damaged := bytes.Clone(frames[0])
	damaged[len(damaged)-1] ^= 1
	frames = append(frames, damaged)
	pcap := pcapFile(binary.LittleEndian, true, layers.LinkTypeRaw, frames)
	for name, b := range map[string][]byte{file: pcap, log: keys} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, out, errOut := runCommand(t, fmt.Sprintf("decode %s --keylog %s", file, log))
	for i, want := range map[string]int{" counter=5 ": 7, " phase=5": 6, " counter=6 ": 6,
		" phase=6": 6, " index=010000 to_loop=5 ": 4, " index=010001 to_loop=5 ": 2,
		" index=020007 phase=": 6, " REQ session=9": 13, " BUNDLE ": 6, " inside=1": 6,
		" SEALED bytes=56 counter=5 index=010000 loop=5 phase_bit=1\n": 1, " 0 malformed": 1} {
		if n := strings.Count(out, i); n != want || status != cli.Done {
			t.Errorf("%q %d times, want %d; status %d, %s%s", i, n, want, status, out, errOut)
		}
	}
}

// TestDecodeSealedPorts: a sealed packet that nothing opens counts by its port, the other packets
// of its addresses or --port; a datagram that only begins like one is none of eRPC's.
func TestDecodeSealedPorts(t *testing.T) {
	pkt := append(wire.AppendSealed(nil, 1<<40, 3<<24|0x010002), make([]byte, 40)...)
	dir := t.TempDir()
	file := filepath.Join(dir, "x.pcap")
	write := func(frames ...[]byte) {
		pcap := pcapFile(binary.LittleEndian, true, layers.LinkTypeRaw, frames)
		if err := os.WriteFile(file, pcap, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const line = " SEALED bytes=52 counter=1099511627776 index=010002 loop=3 phase_bit=0\n"
	for _, c := range []struct {
		to, args string
		want     int
	}{{testServer, "", 1}, {"10.0.0.7:9", "", 0}, {"10.0.0.7:9", " --port 9", 1}} {
		write(udpFrame(t, "10.0.0.8:53", c.to, pkt))
		status, out, errOut := runCommand(t, "decode "+file+c.args)
		if status != cli.Done || strings.Count(out, line) != c.want {
			t.Errorf("%s%s: status %d, %s%s", c.to, c.args, status, out, errOut)
		}
	}
	req := erpcPacket(t, wire.Header{Type: wire.TypeReq, ReqType: 3, MsgSize: 4, Session: 9,
		ReqNum: 8}, 1, nil, "four")
	write(udpFrame(t, "10.0.0.8:53", "10.0.0.7:9", req), udpFrame(t, "10.0.0.7:9", "10.0.0.9:9", pkt))
	if status, out, errOut := runCommand(t, "decode "+file); strings.Count(out, line) != 1 {
		t.Errorf("status %d, %s%s", status, out, errOut)
	}
}

// TestDecodeManyUnderOneIndex: the secret of an association is found among many of the same index,
// though packets of others came before; packets of one that is not in the log cost no more than
// maxMisses tries of each secret, until a Connect says that it is about to be used.
func TestDecodeManyUnderOneIndex(t *testing.T) {
	secret := func(i int) *security.Secrets {
		return &security.Secrets{AEAD: security.AES128GCM, Client: security.Secret{byte(i), byte(i >> 8)}}
	}
	seal := func(i int) []byte {
		a, _ := security.NewAssociation(secret(i), true)
		a.Address(7)
		out, _ := a.Seal(nil, make([]byte, 40), nil)
		return out
	}
	var keys []byte
	const many = 50
	for i := range many {
		keys = secret(i).AppendKeyLog(keys, uint64(i), 9, 7)
	}
	log := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(log, keys, 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := loadKeyLog(log)
	if err != nil {
		t.Fatal(err)
	}
	for i := range many - 1 {
		if plain, _ := k.open(seal(i)); plain == nil {
			t.Errorf("packet of association %d", i)
		}
	}
	for range 2 * maxMisses {
		if plain, _ := k.open(seal(many)); plain != nil {
			t.Fatal("a stranger's packet was opened")
		}
	}
	if plain, _ := k.open(seal(many - 1)); plain != nil {
		t.Error("the last one was tried without end")
	}
	k.heard(&layer.ERPC{Body: &wire.Connect{Nonce: many - 1}})
	if plain, _ := k.open(seal(many - 1)); plain == nil {
		t.Error("the last one was not tried again")
	}
}
