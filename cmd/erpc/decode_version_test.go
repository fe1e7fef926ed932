package main

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/wire"
)

// TestDecodeVersions: packets of version 2 say so; of those of version 3 the types of answers come
// from their requests, by the pair of sessions that the Accept names; what is reserved is shown.
func TestDecodeVersions(t *testing.T) {
	const v2 = wire.OldVersion
	var frames [][]byte
	var lines []string
	add := func(toServer bool, pkt []byte, line string) {
		src, dst := testClient, testServer
		if !toServer {
			src, dst = dst, src
		}
		frames, lines = append(frames, udpFrame(t, src, dst, pkt)), append(lines, line)
	}
	packet := func(h wire.Header, payload string) []byte { return erpcPacket(t, h, 1, nil, payload) }
	accept := func(client, server uint32) []byte {
		return erpcPacket(t, wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpAccept),
			Session: client}, 1, &wire.Accept{Session: server}, "")
	}
	add(false, accept(10, 3), "MGMT ACCEPT session=10 ")
	add(false, accept(11, 4), "MGMT ACCEPT session=11 ")
	add(true, packet(wire.Header{Type: wire.TypeReq, ReqType: 7, Session: 3, ReqNum: 8,
		PktNum: 70_000, MsgSize: 9}, ""), "REQ session=3 req=8 pkt=70000 size=9 data=0 reqtype=7 ")
	add(true, packet(wire.Header{Type: wire.TypeReq, ReqType: 9, Session: 4, ReqNum: 8}, ""),
		"REQ session=4 req=8 pkt=0 size=0 data=0 reqtype=9 ")
	add(false, packet(wire.Header{Type: wire.TypeResp, Session: 10, ReqNum: 8}, ""),
		"RESP session=10 req=8 pkt=0 size=0 data=0 reqtype=7 flags=- hold=0s token=00000001")
	add(false, packet(wire.Header{Type: wire.TypeResp, Session: 11, ReqNum: 8,
		ReqType: wire.HostDelay(16 * 1024 * time.Nanosecond)}, ""), "RESP session=11 req=8 pkt=0 size=0 "+
		"data=0 reqtype=9 flags=- hold=0s delay=16.384us token=00000001")
	add(false, packet(wire.Header{Type: wire.TypeCR, Flags: wire.FlagGap, Session: 10, ReqNum: 8,
		PktNum: 70_000, MsgSize: 8}, string(wire.AppendHole(wire.AppendHole(nil, 70_000, 1), 80_000, 3))),
		"CR session=10 req=8 pkt=70000 size=8 data=8 reqtype=7 flags=GAP try=0 hold=0s "+
			"token=00000001 holes=70000-70000,80000-80002")
	add(true, packet(wire.Header{Type: wire.TypeReq, Version: v2, ReqType: 7, Session: 3,
		ReqNum: 1 << 47}, ""), "REQ session=3 req=140737488355328 pkt=0 size=0 data=0 reqtype=7 "+
		"flags=- try=0 version=2 token=00000001")
	add(false, packet(wire.Header{Type: wire.TypeResp, Version: v2, ReqType: 5, Session: 99,
		ReqNum: 8}, ""), "RESP session=99 req=8 pkt=0 size=0 data=0 reqtype=5 flags=- hold=0s version=2 ")
	drain := erpcPacket(t, wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpDrain), Session: 10},
		1, &wire.Alive{}, "")
	drain = wire.AppendNumber(wire.AppendNumber(wire.AppendTaken(drain, 2), 8), 17)
	drain[4] += byte(wire.TakenSize(2))
	add(false, drain, "MGMT DRAIN session=10 ")
	status, out, errOut := decodeFile(t, pcapFile(binary.LittleEndian, true,
		layers.LinkTypeEthernet, wrapped(frames, etherHead...)))
	got := strings.Split(out, "\n")
	if status != cli.Done || errOut != "" || len(got) < len(lines) {
		t.Fatalf("status %d, %q, %q", status, errOut, out)
	}
	for i, want := range lines {
		if !strings.Contains(got[i], " "+want) {
			t.Errorf("%s\nwant %s", got[i], want)
		}
	}
	if last := got[len(lines)-1]; !strings.HasSuffix(last, " taken=8,17") {
		t.Errorf("%s", last)
	}
}
