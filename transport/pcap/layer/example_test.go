package layer_test

import (
	"fmt"

	"github.com/gopacket/gopacket"

	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

// A program of one's own reads packets with gopacket. Packets over UDP are found by their port.
func Example() {
	packet := make([]byte, wire.HeaderSize)
	h := wire.Header{Type: wire.TypeReq, ReqType: 7, Session: 3, ReqNum: 40, MsgSize: 5}
	h.Put(packet, 9)
	packet = append(packet, "hello"...)

	decoded := gopacket.NewPacket(packet, layer.LayerType, gopacket.Default)
	if e, ok := decoded.Layer(layer.LayerType).(*layer.ERPC); ok {
		fmt.Println(e.Type, e.ReqType, e.Session, e.ReqNum, string(e.Payload))
	}
	// Output: REQ 7 3 40 hello
}
