package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

// sample is the frames of a little capture, and the lines that decode prints of them
// after the time.
func sample(t testing.TB) (frames [][]byte, lines []string) {
	add := func(src, dst string, payload []byte, line string) {
		frames = append(frames, udpFrame(t, src, dst, payload))
		if line != "" {
			lines = append(lines, src+" > "+dst+" "+line)
		}
	}
	elsewhere := "10.0.0.2:5000" // an endpoint that no port gives away
	short := []byte("no header")
	connect := &wire.Connect{Nonce: 0xAB, Epoch: 0xCD, Session: 7, Token: 0xEF,
		Offer: wire.Offer{Credits: 32, Slots: 8, MTU: 1472, MaxMessage: 1 << 20, Waiting: 6,
			Features: wire.FeatureChecksum}}
	connect.Cookie[15] = 0x99
	sealed := erpcPacket(t, wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect),
		Session: wire.NoSession}, 0, connect, "")

	add("10.0.0.9:53", elsewhere, short, "") // nobody knows yet that eRPC speaks there
	add(testClient, testServer, sealed,
		fmt.Sprintf("MGMT CONNECT session=none req=0 pkt=0 size=64 data=0 flags=- token=%08x "+
			"nonce=00000000000000ab epoch=00000000000000cd from_session=7 from_token=000000ef credits=32 "+
			"slots=8 mtu=1472 max_message=1048576 "+
			"waiting=6 checksum=true bundles=false cookie=00000000000000000000000000000099", wire.Token(
			sealed)))
	add(testClient, elsewhere, erpcPacket(t, wire.Header{Type: wire.TypeReq, ReqType: 3, MsgSize: 5000,
		Session: 9, ReqNum: 1 << 40, PktNum: 2, Hold: 5}, 0xDEADBEEF, nil, "four"),
		"REQ session=9 req=1099511627776 pkt=2 size=5000 data=4 reqtype=3 flags=- try=5 token=deadbeef")
	add(elsewhere, testClient,
		erpcPacket(t, wire.Header{Type: wire.TypeCR, Session: 1, Flags: wire.FlagCE | wire.FlagGap,
			Hold: wire.TryHold(5, 20480)}, 1, nil, ""),
		"CR session=1 req=0 pkt=0 size=0 data=0 flags=CE,GAP try=5 hold=20.48us token=00000001")
	add(elsewhere, testClient, erpcPacket(t, wire.Header{Type: wire.TypeResp, Session: 1, Hold: 100},
		1, nil, "four"),
		"RESP session=1 req=0 pkt=0 size=4 data=4 flags=- hold=6.4us token=00000001")
	add(elsewhere, testClient, erpcPacket(t,
		wire.Header{Type: wire.TypeResp, Session: 1, Hold: wire.HoldUnknown, MsgSize: 9}, 1, nil, "four"),
		"RESP session=1 req=0 pkt=0 size=9 data=4 flags=- hold=long token=00000001")
	add(elsewhere, testClient, erpcPacket(t,
		wire.Header{Type: wire.TypeResp, Session: 1, PktNum: 6, MsgSize: 9}, 1, nil, "four"),
		"RESP session=1 req=0 pkt=6 size=9 data=4 flags=- hold=unclear token=00000001")
	fault := wire.AppendError(nil, &wire.Error{
		Status: wire.StatusNotFound, Code: wire.CodeApplication, Ran: true,
		Text: []byte("it \"broke\""), Details: []byte{0xAB, 0},
	})
	add(elsewhere, testClient, erpcPacket(t, wire.Header{Type: wire.TypeErr, Session: 1,
		Flags: wire.FlagLate | wire.Cut(2).Flags(), Hold: 100}, 1, nil, string(fault)),
		"ERR session=1 req=0 pkt=0 size=20 data=20 flags=LATE,CUT=1232 hold=6.4us "+
			`token=00000001 status=NOT_FOUND code="application error" ran=true `+
			`text="it \"broke\"" details=ab00`)
	add(elsewhere, testClient, erpcPacket(t, wire.Header{Type: wire.TypeErr, Session: 1,
		Hold: wire.HoldUnknown}, 1, nil, "\x0f\xc8\x00\x00\x00\x00\x00\x00"),
		"ERR session=1 req=0 pkt=0 size=8 data=8 flags=- hold=long token=00000001 "+
			`status=DATA_LOSS code="unknown code 200" ran=false text=""`)
	add(elsewhere, testClient, erpcPacket(t, wire.Header{Type: wire.TypeErr, Session: 1}, 1, nil,
		"\x00\x05\x00\x00\x00\x00\x00\x00"), // no error
		"ERR session=1 req=0 pkt=0 size=8 data=8 flags=- hold=0s token=00000001 "+
			"error=malformed")
	add(testClient, elsewhere, erpcPacket(t, wire.Header{Type: wire.TypeReq, Session: 1,
		Flags: wire.FlagQuiet | wire.Cut(1).Flags(), Hold: wire.TryRemaining(3, 3*time.Millisecond),
		MsgSize: 9}, 1, nil, "four"),
		"REQ session=1 req=0 pkt=0 size=9 data=4 reqtype=0 flags=QUIET,CUT=1452 try=3 left=3.072ms "+
			"token=00000001")
	add(elsewhere, testClient, erpcPacket(t, wire.Header{Type: wire.TypeResp, Session: 1,
		Flags: wire.FlagCE | wire.FlagLate | wire.MaxCut.Flags()}, 1, nil, "four"),
		"RESP session=1 req=0 pkt=0 size=4 data=4 reqtype=0 flags=CE,LATE,CUT=1024 hold=0s "+
			"token=00000001")
	add(elsewhere, testClient, erpcPacket(t, wire.Header{Type: wire.TypeWait, Session: 1,
		Flags: wire.FlagKeep, Hold: wire.TryHold(5, 20480)}, 1, nil, ""),
		"WAIT session=1 req=0 pkt=0 size=0 data=0 reqtype=0 flags=KEEP try=5 hold=20.48us "+
			"token=00000001")
	add(elsewhere, testClient, erpcPacket(t, wire.Header{Type: wire.TypePast, Session: 1, ReqNum: 8,
		PktNum: 2, Hold: wire.TryBusy(6, true)}, 1, nil, ""),
		"PAST session=1 req=8 pkt=2 size=0 data=0 flags=- try=6 hold=busy token=00000001")
	add(testClient, elsewhere, erpcPacket(t, wire.Header{Type: wire.TypeCancel, Session: 1,
		Hold: 7}, 1, nil, ""),
		"CANCEL session=1 req=0 pkt=0 size=0 data=0 reqtype=0 flags=- try=7 token=00000001")
	add(testClient, elsewhere, erpcPacket(t, wire.Header{Type: wire.TypeAck, PktNum: 4,
		Session: wire.FirstOf(127) + 1}, 1, nil, ""),
		"ACK session=1 loop=127 req=0 pkt=4 size=0 data=0 reqtype=0 flags=- token=00000001")
	drain := erpcPacket(t, wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpDrain),
		Session: wire.FirstOf(9) + 2}, 5, &wire.Alive{Session: wire.FirstOf(8) + 3, Token: 4, Seq: 5,
		To: 5}, "")
	add(elsewhere, testClient, drain, fmt.Sprintf("MGMT DRAIN session=2 loop=9 req=0 pkt=0 size=24 "+
		"data=0 flags=- token=%08x from_session=3 from_loop=8 from_token=00000004 seq=0000000000000005 "+
		"to_token=00000005", wire.Token(drain)))
	add(testClient, elsewhere,
		erpcPacket(t, wire.Header{Type: wire.TypeRFR, Session: 1, PktNum: 65535, Hold: 63}, 1, nil, ""),
		"RFR session=1 req=0 pkt=65535 size=0 data=0 reqtype=0 flags=- try=63 token=00000001")
	reset := erpcPacket(t, wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpReset), Session: 2},
		5, &wire.Alive{Session: wire.NoSession, Seq: 3, To: 5}, "")
	add(elsewhere, testClient, reset,
		fmt.Sprintf("MGMT RESET session=2 req=0 pkt=0 size=24 data=0 flags=- token=%08x "+
			"from_session=none from_token=00000000 seq=0000000000000003 to_token=00000005", wire.Token(
			reset)))
	refuse := erpcPacket(t, wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpRefuse),
		Session: 2}, 5, &wire.Refuse{Nonce: 1, Code: wire.CodeShutdown}, "pad")
	add(testServer, "10.0.0.3:1", refuse,
		fmt.Sprintf("MGMT REFUSE session=2 req=0 pkt=0 size=16 data=3 flags=- token=%08x "+
			`nonce=0000000000000001 reason="shutting down"`, wire.Token(refuse)))
	var old [wire.VersionRefusalSize]byte
	(&wire.VersionRefusal{Nonce: 0xAB, Asked: 1, Least: 2, Most: 3}).Put(old[:])
	add(testServer, testClient, old[:],
		"VERSION bytes=40 nonce=00000000000000ab asked=1 least=2 most=3")
	// Malformed: to an endpoint that has spoken, from one, and at the port of the server.
	add("10.0.0.9:53", elsewhere, short, `MALFORMED bytes=9 why="packet shorter than a header"`)
	bad := bytes.Clone(sealed)
	bad[0] = 0x44
	add(testClient, "10.0.0.9:53", bad, `MALFORMED bytes=88 why="unknown protocol version"`)
	add("10.0.0.8:8", "10.0.0.8:31850", nil, `MALFORMED bytes=0 why="packet shorter than a header"`)
	add("10.0.0.9:53", "10.0.0.9:54", short, "")
	return frames, lines
}
