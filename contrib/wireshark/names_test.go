package wireshark

import (
	"fmt"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/transport/pcap"
	"github.com/userspace-rpc/erpc/wire"
)

// TestNames: types, operations, statuses, codes and cuts have the names of package wire, and the
// text of an error is UTF-8.
func TestNames(t *testing.T) {
	var list [][]byte
	var want []string
	add := func(h wire.Header, body []byte, name, value string) {
		h.MsgSize = uint32(len(body))
		pkt := make([]byte, wire.HeaderSize, wire.HeaderSize+len(body))
		h.Put(pkt, 0)
		list = append(list, append(pkt, body...))
		want = append(want, name, value)
	}
	addError := func(e wire.Error, name, value string) {
		add(wire.Header{Type: wire.TypeErr}, wire.AppendError(nil, &e), name, value)
	}
	types, ops, codes, statuses := 0, 0, 0, 0
	for v := wire.Type(0); v.String() != "INVALID"; v++ {
		if types++; v != wire.TypeMgmt && v != wire.TypeErr && v < wire.TypeBundle {
			add(wire.Header{Type: v}, nil, "erpc.type", fmt.Sprintf("Type: %v (%d)", v, v))
		}
	}
	for v := wire.Op(1); v.String() != "INVALID"; v++ {
		ops++
		add(wire.Header{Type: wire.TypeMgmt, ReqType: uint8(v)}, make([]byte, wire.ConnectSize),
			"erpc.op", fmt.Sprintf("Operation: %v (%d)", v, v))
	}
	for v := wire.Code(1); v.String() != "unknown code"; v++ {
		codes++
		addError(wire.Error{Status: 1, Code: v},
			"erpc.error_code", fmt.Sprintf("Error code: %v (%d)", v, v))
		body := make([]byte, wire.RefuseSize)
		(&wire.Refuse{Code: v}).Put(body)
		add(wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpRefuse)}, body,
			"erpc.code", fmt.Sprintf("Reason: %v (%d)", v, v))
	}
	for v := wire.Status(1); v.String() != "INVALID"; v++ {
		statuses++
		addError(wire.Error{Status: v, Code: 1},
			"erpc.error_status", fmt.Sprintf("Status: %v (%d)", v, v))
	}
	for c := wire.Cut(1); c <= wire.MaxCut; c++ {
		add(wire.Header{Type: wire.TypeReq, Flags: c.Flags()}, nil,
			"erpc.flags.cut", fmt.Sprintf("Cut, packets of: %d bytes (%d)", wire.CutSizes[c], c))
	}
	addError(wire.Error{Status: 1, Code: 1, Text: []byte("größer")},
		"erpc.error_text", "Error text: größer")
	taken := wire.AppendNumber(wire.AppendTaken(make([]byte, wire.AliveSize), 1), 8)
	index := wire.AppendExtension(make([]byte, wire.ConnectSize), wire.Extension{Type: wire.ExtIndex})
	add(wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpDrain)}, taken,
		"erpc.ext.type", "Extension: what the server has taken (1)")
	add(wire.Header{Type: wire.TypeMgmt, ReqType: uint8(wire.OpConnect)}, index,
		"erpc.ext.type", "Extension: index of the sender (2)")
	bundle := make([]byte, wire.BundleHeaderSize+12)
	wire.PutRecord(bundle[wire.BundleHeaderSize:], &wire.Header{Type: wire.TypeReq}, 0, false, 0)
	wire.PutBundle(bundle, wire.Version, 1, 12, 1, 0)
	list = append(list, bundle)
	list = append(list, wire.AppendSealed(nil, 1, 2))
	want = append(want, "erpc.type", "Type: BUNDLE (10)", "erpc.type", "Type: SEALED (11)")
	if types != 12 || ops != 15 || codes != 12 || statuses != 16 {
		t.Errorf("%d types, %d operations, %d codes, %d statuses", types, ops, codes, statuses)
	}

	file := record(t, pcap.Config{}, func(send func(src, dst string, pkt []byte)) {
		for _, pkt := range list {
			send("10.0.0.1:40000", "10.0.0.2:31850", pkt)
		}
	})
	shown := strings.Split(tshark(t, file, "-T", "pdml"), "</packet>")
	if len(shown) != len(list)+1 {
		t.Fatalf("%d packets shown of %d", len(shown)-1, len(list))
	}
	for i := range list {
		if name, value := want[2*i], want[2*i+1]; !shows(shown[i], name, value) {
			t.Errorf("packet %d, % x: %s is not %q", i, list[i], name, value)
		}
	}
}

// shows reports whether a packet in PDML has a field whose label ends in value.
func shows(packet, name, value string) bool {
	for line := range strings.Lines(packet) {
		if strings.Contains(line, `name="`+name+`"`) && strings.Contains(line, value+`"`) {
			return true
		}
	}
	return false
}
