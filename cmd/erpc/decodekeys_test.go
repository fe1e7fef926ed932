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

	"github.com/userspace-rpc/erpc/internal/cli"
	"github.com/userspace-rpc/erpc/security"
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
	if n := strings.Count(out, "counter="); status != cli.Done || out != string(want) || n != 7 {
		t.Errorf("status %d, %d lines, %s%s", status, n, out, errOut)
	}
	status, out, errOut = runCommand(t, decode)
	if status != cli.Done || strings.Count(out, " SEALED bytes=") != 7 ||
		!strings.Contains(out, "(0 REQ, 0 RFR, 0 CR, 0 RESP, 8 MGMT, 7 SEALED), 0 malformed") {
		t.Errorf("without: status %d, %s%s", status, out, errOut)
	}
	status, out, errOut = runCommand(t, decode+" --keylog testdata/sealed.keys --json")
	var all struct{ Packets []line }
	if err := json.Unmarshal([]byte(out), &all); err != nil || status != cli.Done {
		t.Fatal(err, errOut)
	}
	last := all.Packets[len(all.Packets)-1]
	if s := last.Sealed; s == nil || s.Counter != 3 || s.Phase != 0 || s.Bytes != last.Bytes+20 {
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

// TestDecodeKeyLogLater: captures without an opening: packets and bundles of two associations
// between the same addresses, of several key phases, beside plain ones and damaged ones.
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
	for i := range 2 {
		s := &security.Secrets{AEAD: security.AES128GCM, Client: security.Secret{byte(i)}}
		s.Server[3] = byte(9 + i)
		keys = s.AppendKeyLog(keys, uint64(i))
		var ends [2]*security.Association
		for j := range ends {
			ends[j], _ = security.NewAssociation(s, j == 0)
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
	for i, want := range map[string]int{" counter=5 phase=5": 4, " counter=6 phase=6": 4,
		" REQ session=9": 9, " BUNDLE ": 4, " inside=1": 4, " SEALED ": 1, " 0 malformed": 1} {
		if n := strings.Count(out, i); n != want || status != cli.Done {
			t.Errorf("%q %d times, want %d; status %d, %s%s", i, n, want, status, out, errOut)
		}
	}
}
