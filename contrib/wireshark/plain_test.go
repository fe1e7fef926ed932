package wireshark

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/userspace-rpc/erpc/transport/pcap/layer"
)

// TestPlain: the dissector shows the sessions of a capture that "erpc decode --write" made of a
// sealed one. The command's tests make this file anew and compare.
func TestPlain(t *testing.T) {
	const file = "../../cmd/erpc/testdata/plain.pcapng"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	rows := dissect(t, file, "-o", "ip.check_checksum:TRUE")
	types := map[string]int{}
	var asked layer.Types
	for i, row := range rows {
		frame, _, err := in.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		udp, ok := gopacket.NewPacket(frame, in.LinkType(), gopacket.Default).
			Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok {
			t.Fatalf("frame %d: no UDP", i)
		}
		src := netip.MustParseAddrPort(fmt.Sprint("10.0.0.1:", uint16(udp.SrcPort)))
		dst := netip.MustParseAddrPort(fmt.Sprint("10.0.0.1:", uint16(udp.DstPort)))
		want := expect(udp.Payload, func(e *layer.ERPC) (uint8, bool) { return asked.Of(src, dst, e) })
		compare(t, i, udp.Payload, row, want)
		if row["erpc.type"] == "3" && row["erpc.reqtype"] == "" {
			t.Errorf("frame %d: a response without its request type", i)
		}
		if sum := row["ip.checksum.status"]; sum != "1" && sum != "Good" {
			t.Errorf("frame %d: the IP checksum is %q", i, sum)
		}
		types[row["erpc.type"]]++
		if row["erpc.malformed"] != "" {
			types["malformed"]++
		}
	}
	// Eight packets opened the session; then there were three calls, and the end.
	if len(rows) != 15 || types["0"] != 3 || types["3"] != 3 || types["4"] != 9 ||
		types["malformed"] != 0 {
		t.Errorf("%d frames, by types %v", len(rows), types)
	}
	sealed := 0
	for i, row := range dissect(t, "../../cmd/erpc/testdata/sealed.pcap") {
		if row["erpc.type"] == "11" && row["erpc.sealed.counter"] != "" {
			sealed++
		}
		if row["erpc.malformed"] != "" {
			t.Errorf("frame %d looks malformed: %v", i, row)
		}
	}
	if sealed != 10 {
		t.Errorf("%d frames are sealed", sealed)
	}
}
